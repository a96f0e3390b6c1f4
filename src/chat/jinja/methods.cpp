// Attributes, elements and methods of values.
#include <algorithm>
#include <array>

#include "chat/jinja/builtins.h"
#include "chat/jinja/strings.h"

namespace kda::jinja {
namespace {

using Method = Value (*)(Context&, const Value& self, const Arguments&);

struct MethodEntry {
  Kind self;
  std::string_view name;
  Method call;
};

const Text& text_argument(Context& context, std::string_view callee, const Value& value) {
  if (!value.is_string())
    context.fail(ErrorCode::kFormat, "{}: {} was given, expected a string", callee, value.kind_name());
  return value.as_text();
}

int64_t integer_argument(Context& context, std::string_view callee, const Value& value) {
  if (!value.is_integral())
    context.fail(ErrorCode::kFormat, "{}: {} was given, expected an integer", callee, value.kind_name());
  return value.as_integer();
}

// --- strings ---

template <bool kLeft, bool kRight>
Value strip_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "strip", 0, {"chars"});
  const bool spaces = bound[0] == nullptr || bound[0]->is(Kind::kNone);
  std::string_view characters;
  if (!spaces) characters = text_argument(context, "strip", *bound[0]).bytes();
  return Value::string(stripped(context, self.as_text(), spaces, characters, kLeft, kRight));
}

template <bool kEnd>
Value affix_method(Context& context, const Value& self, const Arguments& arguments) {
  constexpr std::string_view kName = kEnd ? "endswith" : "startswith";
  const auto bound = arguments.bind(context, kName, 1, {"affix"});
  const std::string& text = self.as_bytes();
  const auto has = [&](const Value& value) {
    const std::string& affix = text_argument(context, kName, value).bytes();
    context.charge_bytes(affix.size());
    if (affix.size() > text.size()) return false;
    return text.compare(kEnd ? text.size() - affix.size() : 0, affix.size(), affix) == 0;
  };
  if (!bound[0]->is(Kind::kList)) return Value::boolean(has(*bound[0]));
  const auto& items = bound[0]->as_list().items;
  return Value::boolean(std::any_of(items.begin(), items.end(), has));
}

Value split_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "split", 0, {"sep", "maxsplit"});
  const int64_t n_max = bound[1] == nullptr ? -1 : integer_argument(context, "split", *bound[1]);
  if (bound[0] == nullptr || bound[0]->is(Kind::kNone)) return split_at_spaces(context, self.as_text(), n_max);
  const std::string& separator = text_argument(context, "split", *bound[0]).bytes();
  if (separator.empty()) context.fail(ErrorCode::kFormat, "split: the separator is empty");
  return split_at(context, self.as_text(), separator, n_max);
}

Value replace_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "replace", 2, {"old", "new", "count"});
  const int64_t n_max = bound[2] == nullptr ? -1 : integer_argument(context, "replace", *bound[2]);
  return Value::string(replace_all(context, self.as_text(), text_argument(context, "replace", *bound[0]).bytes(),
                                   text_argument(context, "replace", *bound[1]), n_max));
}

template <Text (*kChange)(Context&, const Text&)>
Value change_method(Context& context, const Value& self, const Arguments& arguments) {
  (void)arguments.bind(context, "the method", 0, {});
  return Value::string(kChange(context, self.as_text()));
}

// --- dicts ---

Value get_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "get", 1, {"key", "default"});
  if (const Value* value = self.as_dict().find(*bound[0])) return *value;
  return bound[1] == nullptr ? Value::none() : *bound[1];
}

Value keys_method(Context& context, const Value& self, const Arguments& arguments) {
  (void)arguments.bind(context, "keys", 0, {});
  return context.new_list(elements_of(context, self));
}

Value values_method(Context& context, const Value& self, const Arguments& arguments) {
  (void)arguments.bind(context, "values", 0, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().entries()) items.push_back(value);
  context.charge(items.size());
  return context.new_list(std::move(items));
}

Value items_method(Context& context, const Value& self, const Arguments& arguments) {
  (void)arguments.bind(context, "items", 0, {});
  return items_of(context, self);
}

Value pop_key_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "pop", 1, {"key", "default"});
  Dict& dict = self.as_dict();
  const Value* found = dict.find(*bound[0]);
  if (found == nullptr) {
    if (bound[1] != nullptr) return *bound[1];
    context.fail(ErrorCode::kFormat, "pop: the key {} is not there", to_text(context, *bound[0]).bytes());
  }
  Value value = *found;
  context.charge(dict.entries().size());
  dict.erase(*bound[0]);
  return value;
}

// --- lists ---

void check_mutable(Context& context, const Value& self, std::string_view name) {
  if (self.as_list().is_tuple) context.fail(ErrorCode::kFormat, "a tuple has no method '{}'", name);
}

Value append_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "append", 1, {"item"});
  check_mutable(context, self, "append");
  context.charge(2);
  self.as_list().items.push_back(*bound[0]);
  return Value::none();
}

Value pop_item_method(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "pop", 0, {"index"});
  check_mutable(context, self, "pop");
  auto& items = self.as_list().items;
  const auto n = static_cast<int64_t>(items.size());
  int64_t at = bound[0] == nullptr ? -1 : integer_argument(context, "pop", *bound[0]);
  if (at < 0) at += n;
  if (at < 0 || at >= n) context.fail(ErrorCode::kFormat, "pop: a list of {} has no such element", n);
  context.charge(static_cast<size_t>(n - at));
  Value value = items[static_cast<size_t>(at)];
  items.erase(items.begin() + at);
  return value;
}

constexpr std::array kMethods{
    MethodEntry{Kind::kString, "strip", strip_method<true, true>},
    MethodEntry{Kind::kString, "lstrip", strip_method<true, false>},
    MethodEntry{Kind::kString, "rstrip", strip_method<false, true>},
    MethodEntry{Kind::kString, "startswith", affix_method<false>},
    MethodEntry{Kind::kString, "endswith", affix_method<true>},
    MethodEntry{Kind::kString, "split", split_method},
    MethodEntry{Kind::kString, "replace", replace_method},
    MethodEntry{Kind::kString, "upper", change_method<uppercase>},
    MethodEntry{Kind::kString, "lower", change_method<lowercase>},
    MethodEntry{Kind::kString, "capitalize", change_method<capitalized>},
    MethodEntry{Kind::kString, "title", change_method<titlecase>},
    MethodEntry{Kind::kDict, "get", get_method},
    MethodEntry{Kind::kDict, "keys", keys_method},
    MethodEntry{Kind::kDict, "values", values_method},
    MethodEntry{Kind::kDict, "items", items_method},
    MethodEntry{Kind::kDict, "pop", pop_key_method},
    MethodEntry{Kind::kList, "append", append_method},
    MethodEntry{Kind::kList, "pop", pop_item_method},
};

const MethodEntry* find_method(Kind self, std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const MethodEntry& m) { return m.self == self && m.name == name; });
  return found == kMethods.end() ? nullptr : &*found;
}

}  // namespace

std::vector<const Value*> Arguments::bind(Context& context, std::string_view callee, size_t n_required,
                                          std::initializer_list<std::string_view> parameters) const {
  if (positional.size() > parameters.size())
    context.fail(ErrorCode::kFormat, "{}: {} arguments were given, expected at most {}", callee, positional.size(),
                 parameters.size());
  std::vector<const Value*> bound(parameters.size(), nullptr);
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) context.fail(ErrorCode::kFormat, "{}: there is no parameter '{}'", callee, name);
    const auto place = static_cast<size_t>(found - parameters.begin());
    if (bound[place] != nullptr) context.fail(ErrorCode::kFormat, "{}: '{}' was given twice", callee, name);
    bound[place] = &value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (bound[i] == nullptr)
      context.fail(ErrorCode::kFormat, "{}: the argument '{}' is missing", callee, *(parameters.begin() + i));
  }
  return bound;
}

bool is_method(std::string_view name) {
  return std::any_of(kMethods.begin(), kMethods.end(), [&](const MethodEntry& m) { return m.name == name; });
}

bool has_method(const Value& self, std::string_view name) { return find_method(self.kind(), name) != nullptr; }

Value call_method(Context& context, const Value& self, std::string_view name, const Arguments& arguments) {
  return find_method(self.kind(), name)->call(context, self, arguments);
}

Value attribute_of(Context& context, const Value& value, std::string_view name) {
  if (value.is_undefined()) context.fail(ErrorCode::kFormat, "'{}' cannot be taken of an undefined value", name);
  if (has_method(value, name))
    return context.new_function({.name = std::string(name), .is_method = true, .self = value});
  const Value* found = nullptr;
  if (value.is(Kind::kDict)) found = value.as_dict().find(name);
  if (value.is(Kind::kNamespace)) found = value.as_namespace().attributes.find(name);
  return found == nullptr ? Value() : *found;
}

Value item_of(Context& context, const Value& value, const Value& key) {
  if (value.is(Kind::kDict)) {
    if (const Value* found = value.as_dict().find(key)) return *found;
  }
  if (key.is_string()) return attribute_of(context, value, key.as_bytes());
  if (value.is_undefined()) context.fail(ErrorCode::kFormat, "an element cannot be taken of an undefined value");
  if (!key.is_integral()) return {};
  int64_t at = key.as_integer();
  if (value.is(Kind::kList)) {
    const auto& items = value.as_list().items;
    if (at < 0) at += static_cast<int64_t>(items.size());
    return at >= 0 && at < static_cast<int64_t>(items.size()) ? items[static_cast<size_t>(at)] : Value();
  }
  if (value.is_string()) {
    const Text& text = value.as_text();
    context.charge_bytes(text.size());
    if (at < 0) at += static_cast<int64_t>(count_characters(text.bytes()));
    size_t pos = 0;
    for (; at > 0 && pos < text.size(); --at) pos += character_at(text.bytes(), pos).n_bytes;
    if (at < 0 || pos >= text.size()) return {};
    return Value::string(text.substr(pos, character_at(text.bytes(), pos).n_bytes));
  }
  return {};
}

}  // namespace kda::jinja
