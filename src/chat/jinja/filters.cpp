#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "chat/jinja/builtins.h"
#include "chat/jinja/json.h"
#include "chat/jinja/strings.h"

namespace kda::jinja {
namespace {

struct FilterEntry {
  std::string_view name;
  Filter call;
};

constexpr int64_t kMaxIndent = 64;

void expect_no_arguments(Context& context, std::string_view name, const Arguments& arguments) {
  (void)arguments.bind(context, name, 0, {});
}

std::optional<std::string> optional_text(Context& context, const Value* value) {
  if (value == nullptr || value->is(Kind::kNone)) return std::nullopt;
  return to_text(context, *value).bytes();
}

bool flag(const Value* value, bool fallback) { return value == nullptr ? fallback : truthy(*value); }

// --- text ---

Value tojson_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "tojson", 0, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = flag(bound[0], false);
  if (bound[1] != nullptr && !bound[1]->is(Kind::kNone)) {
    if (!bound[1]->is_integral() || bound[1]->as_integer() < 0 || bound[1]->as_integer() > kMaxIndent)
      context.fail(ErrorCode::kFormat, "tojson: indent must be an integer from 0 to {}", kMaxIndent);
    style.indent = bound[1]->as_integer();
    style.item_separator = ",";
  }
  if (bound[2] != nullptr && !bound[2]->is(Kind::kNone)) {
    const std::vector<Value> separators = elements_of(context, *bound[2]);
    if (separators.size() != 2) context.fail(ErrorCode::kFormat, "tojson: expected two separators");
    style.item_separator = to_text(context, separators[0]).bytes();
    style.key_separator = to_text(context, separators[1]).bytes();
  }
  style.sort_keys = flag(bound[3], false);
  return Value::string(to_json(context, input, style));
}

Value string_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "string", arguments);
  return Value::string(to_text(context, input));
}

Value trim_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "trim", 0, {"chars"});
  const std::optional<std::string> characters = optional_text(context, bound[0]);
  return Value::string(stripped(context, to_text(context, input), !characters, characters.value_or(""), true, true));
}

template <Text (*kChange)(Context&, const Text&)>
Value change_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "the filter", arguments);
  return Value::string(kChange(context, to_text(context, input)));
}

Value replace_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "replace", 2, {"old", "new", "count"});
  int64_t n_max = -1;
  if (bound[2] != nullptr && !bound[2]->is(Kind::kNone)) {
    if (!bound[2]->is_integral()) context.fail(ErrorCode::kFormat, "replace: count must be an integer");
    n_max = bound[2]->as_integer();
  }
  return Value::string(replace_all(context, to_text(context, input), to_text(context, *bound[0]).bytes(),
                                   to_text(context, *bound[1]), n_max));
}

Value indent_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "indent", 0, {"width", "first", "blank"});
  Text indention(std::string(4, ' '), true);
  if (bound[0] != nullptr && bound[0]->is_string()) {
    indention = bound[0]->as_text();
  } else if (bound[0] != nullptr) {
    if (!bound[0]->is_integral() || bound[0]->as_integer() < 0 || bound[0]->as_integer() > kMaxIndent)
      context.fail(ErrorCode::kFormat, "indent: width must be a string or an integer from 0 to {}", kMaxIndent);
    indention = Text(std::string(static_cast<size_t>(bound[0]->as_integer()), ' '), true);
  }
  const bool blank = flag(bound[2], false);
  const Text text = to_text(context, input);
  context.charge_bytes(text.size());
  Text result;
  bool indent_line = flag(bound[1], false);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.bytes().find('\n', begin), text.size());
    if (indent_line) {
      context.charge_bytes(indention.size());
      result.append(indention);
      context.check_output(result.size());
    }
    result.append_range(text, begin, end + 1 - begin);
    begin = end + 1;
    const bool empty_line = begin >= text.size() || text.bytes()[begin] == '\n';
    indent_line = blank || !empty_line;
    if (begin == text.size() && !blank) break;
  }
  return Value::string(std::move(result));
}

// --- lists and numbers ---

Value length_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "length", arguments);
  size_t n = 0;
  switch (input.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kString:
      context.charge_bytes(input.as_text().size());
      n = count_characters(input.as_bytes());
      break;
    case Kind::kList:
      n = input.as_list().items.size();
      break;
    case Kind::kDict:
      n = input.as_dict().entries().size();
      break;
    default:
      context.fail(ErrorCode::kFormat, "length: {} has none", input.kind_name());
  }
  return Value::integer(static_cast<int64_t>(n));
}

/// The value at a path of names and numbers with dots between them, as map(attribute=...) takes it.
Value at_path(Context& context, Value value, const Value& path) {
  if (!path.is_string()) return item_of(context, value, path);
  const Value parts = split_at(context, path.as_text(), ".", -1);
  for (const Value& part : parts.as_list().items) {
    const std::string& name = part.as_bytes();
    int64_t index = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data(), end, index);
    const bool is_index = !name.empty() && parsed.ec == std::errc() && parsed.ptr == end && name[0] != '-';
    value = item_of(context, value, is_index ? Value::integer(index) : part);
  }
  return value;
}

Value join_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "join", 0, {"d", "attribute"});
  const Text separator = bound[0] == nullptr ? Text() : to_text(context, *bound[0]);
  Text result;
  bool first = true;
  for (const Value& element : elements_of(context, input)) {
    if (!first) result.append(separator);
    first = false;
    const Text part = to_text(context, bound[1] == nullptr ? element : at_path(context, element, *bound[1]));
    context.charge_bytes(separator.size() + part.size());
    result.append(part);
    context.check_output(result.size());
  }
  return Value::string(std::move(result));
}

Value default_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "default", 0, {"default_value", "boolean"});
  const bool replace = input.is_undefined() || (flag(bound[1], false) && !truthy(input));
  if (!replace) return input;
  return bound[0] == nullptr ? Value::string({}) : *bound[0];
}

Value first_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "first", arguments);
  const std::vector<Value> elements = elements_of(context, input);
  return elements.empty() ? Value() : elements.front();
}

Value last_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "last", arguments);
  const std::vector<Value> elements = elements_of(context, input);
  return elements.empty() ? Value() : elements.back();
}

Value list_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "list", arguments);
  return context.new_list(elements_of(context, input));
}

Value reverse_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "reverse", arguments);
  std::vector<Value> elements = elements_of(context, input);
  std::reverse(elements.begin(), elements.end());
  if (!input.is_string()) return context.new_list(std::move(elements));
  Text text;
  for (const Value& element : elements) text.append(element.as_text());
  return Value::string(std::move(text));
}

Value items_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "items", arguments);
  if (input.is_undefined()) return context.new_list();
  if (!input.is(Kind::kDict))
    context.fail(ErrorCode::kFormat, "items: {} was given, expected a mapping", input.kind_name());
  return items_of(context, input);
}

Value dictsort_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "dictsort", 0, {"case_sensitive", "by", "reverse"});
  const bool case_sensitive = flag(bound[0], false);
  const std::string by = optional_text(context, bound[1]).value_or("key");
  if (by != "key" && by != "value") context.fail(ErrorCode::kFormat, "dictsort: by must be 'key' or 'value'");
  const bool descending = flag(bound[2], false);
  const Value items = items_filter(context, input, {});
  const auto sort_key = [&](const Value& item) {
    const Value& value = item.as_list().items[by == "key" ? 0 : 1];
    return value.is_string() && !case_sensitive ? Value::string(lowercase(context, value.as_text())) : value;
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items.as_list().items) keyed.emplace_back(sort_key(item), item);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const int order = compare(context, a.first, b.first);
    return descending ? order > 0 : order < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return context.new_list(std::move(sorted));
}

std::optional<double> parse_number(std::string_view text) {
  text.remove_prefix(leading_spaces(text));
  text.remove_suffix(trailing_spaces(text));
  if (!text.empty() && text[0] == '+' && text.substr(0, 2) != "+-") text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Value int_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "int", 0, {"default", "base"});
  if (bound[1] != nullptr && !equal(context, *bound[1], Value::integer(10)))
    context.fail(ErrorCode::kUnsupported, "int: only base 10 is supported");
  Value fallback = bound[0] == nullptr ? Value::integer(0) : *bound[0];
  if (input.is_integral()) return Value::integer(input.as_integer());
  std::optional<double> value;
  if (input.is(Kind::kFloat)) value = input.as_number();
  if (input.is_string()) {
    std::string_view text = input.as_bytes();
    text.remove_prefix(leading_spaces(text));
    text.remove_suffix(trailing_spaces(text));
    int64_t integer = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), integer);
    if (result.ec == std::errc() && result.ptr == text.data() + text.size()) return Value::integer(integer);
    value = parse_number(text);
  }
  if (!value || !(std::fabs(*value) < 0x1p63)) return fallback;
  return Value::integer(static_cast<int64_t>(*value));
}

Value float_filter(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = arguments.bind(context, "float", 0, {"default"});
  if (input.is_numeric()) return Value::number(input.as_number());
  const std::optional<double> value = input.is_string() ? parse_number(input.as_bytes()) : std::nullopt;
  if (value) return Value::number(*value);
  return bound[0] == nullptr ? Value::number(0) : *bound[0];
}

Value abs_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "abs", arguments);
  if (input.is(Kind::kFloat)) return Value::number(std::fabs(input.as_number()));
  if (!input.is_integral() || input.as_integer() == INT64_MIN)
    context.fail(ErrorCode::kFormat, "abs: {} was given, expected a number of at most 64 bits", input.kind_name());
  return Value::integer(std::abs(input.as_integer()));
}

Value safe_filter(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, "safe", arguments);
  return Value::string(to_text(context, input));
}

// --- filters that use others ---

/// The name that a filter got as its argument at `place`, and what comes after it.
std::pair<std::string, Arguments> named_rest(Context& context, std::string_view callee, const Arguments& arguments,
                                             size_t place) {
  if (!arguments.positional[place].is_string())
    context.fail(ErrorCode::kFormat, "{}: {} was given, expected a name", callee,
                 arguments.positional[place].kind_name());
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(place) + 1, arguments.positional.end());
  rest.named = arguments.named;
  return {arguments.positional[place].as_bytes(), std::move(rest)};
}

Value map_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Context::Level level(context);
  std::vector<Value> mapped;
  if (arguments.positional.empty()) {
    const auto bound = arguments.bind(context, "map", 0, {"attribute", "default"});
    if (bound[0] == nullptr) context.fail(ErrorCode::kFormat, "map: expected the name of a filter or an attribute");
    for (const Value& element : elements_of(context, input)) {
      Value value = at_path(context, element, *bound[0]);
      if (value.is_undefined() && bound[1] != nullptr) value = *bound[1];
      mapped.push_back(std::move(value));
    }
    return context.new_list(std::move(mapped));
  }
  const auto [name, rest] = named_rest(context, "map", arguments, 0);
  const Filter filter = find_filter(name);
  if (filter == nullptr) context.fail(ErrorCode::kUnsupported, "the filter '{}' is not supported", name);
  for (const Value& element : elements_of(context, input)) mapped.push_back(filter(context, element, rest));
  return context.new_list(std::move(mapped));
}

/// select, reject, selectattr, rejectattr: the elements that pass a test, or fail it.
template <bool kAttribute, bool kKeep>
Value select_filter(Context& context, const Value& input, const Arguments& arguments) {
  constexpr size_t kTestPlace = kAttribute ? 1 : 0;
  if (kAttribute && arguments.positional.empty())
    context.fail(ErrorCode::kFormat, "selectattr: the name of an attribute is missing");
  Test test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > kTestPlace) {
    std::string name;
    std::tie(name, rest) = named_rest(context, "select", arguments, kTestPlace);
    test = find_test(name);
    if (test == nullptr) context.fail(ErrorCode::kUnsupported, "the test '{}' is not supported", name);
  }
  std::vector<Value> kept;
  for (const Value& element : elements_of(context, input)) {
    const Value subject = kAttribute ? at_path(context, element, arguments.positional[0]) : element;
    if ((test != nullptr ? test(context, subject, rest) : truthy(subject)) == kKeep) kept.push_back(element);
  }
  return context.new_list(std::move(kept));
}

constexpr std::array kFilters{
    FilterEntry{"abs", abs_filter},
    FilterEntry{"capitalize", change_filter<capitalized>},
    FilterEntry{"count", length_filter},
    FilterEntry{"d", default_filter},
    FilterEntry{"default", default_filter},
    FilterEntry{"dictsort", dictsort_filter},
    FilterEntry{"first", first_filter},
    FilterEntry{"float", float_filter},
    FilterEntry{"indent", indent_filter},
    FilterEntry{"int", int_filter},
    FilterEntry{"items", items_filter},
    FilterEntry{"join", join_filter},
    FilterEntry{"last", last_filter},
    FilterEntry{"length", length_filter},
    FilterEntry{"list", list_filter},
    FilterEntry{"lower", change_filter<lowercase>},
    FilterEntry{"map", map_filter},
    FilterEntry{"reject", select_filter<false, false>},
    FilterEntry{"rejectattr", select_filter<true, false>},
    FilterEntry{"replace", replace_filter},
    FilterEntry{"reverse", reverse_filter},
    FilterEntry{"safe", safe_filter},
    FilterEntry{"select", select_filter<false, true>},
    FilterEntry{"selectattr", select_filter<true, true>},
    FilterEntry{"string", string_filter},
    FilterEntry{"title", change_filter<titlecase>},
    FilterEntry{"tojson", tojson_filter},
    FilterEntry{"trim", trim_filter},
    FilterEntry{"upper", change_filter<uppercase>},
};

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found =
      std::find_if(kFilters.begin(), kFilters.end(), [&](const FilterEntry& f) { return f.name == name; });
  return found == kFilters.end() ? nullptr : found->call;
}

}  // namespace kda::jinja
