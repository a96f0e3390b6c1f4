#include "chat/jinja/value.h"

#include <array>
#include <charconv>
#include <cmath>

namespace kda::jinja {
namespace {

/// One string per set of keys that are equal in Python (1, 1.0 and true are); empty for what cannot be a key.
std::string key_of(const Value& key) {
  switch (key.kind()) {
    case Kind::kString:
      return "s" + key.as_bytes();
    case Kind::kNone:
      return "n";
    case Kind::kBool:
    case Kind::kInt:
      return fmt::format("i{}", key.as_integer());
    case Kind::kFloat: {
      const double x = key.as_number();
      if (x == std::floor(x) && std::fabs(x) < 0x1p62) return fmt::format("i{}", static_cast<int64_t>(x));
      return "f" + float_text(x);
    }
    default:
      return {};
  }
}

/// Python's repr() of a string: single quotes unless only those occur in it.
void append_quoted(std::string_view text, std::string& out) {
  const bool use_double = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = use_double ? '"' : '\'';
  out += quote;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    if (c.code_point == static_cast<unsigned char>(quote) || c.code_point == '\\') {
      out += '\\';
      out += static_cast<char>(c.code_point);
    } else if (c.code_point == '\n') {
      out += "\\n";
    } else if (c.code_point == '\r') {
      out += "\\r";
    } else if (c.code_point == '\t') {
      out += "\\t";
    } else if (c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point <= 0xA0) || c.code_point == 0xAD) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c.code_point));
    } else {
      out += text.substr(pos, c.n_bytes);
    }
    pos += c.n_bytes;
  }
  out += quote;
}

void append_repr(Context& context, const Value& value, std::string& out) {
  const Context::Level level(context);
  const size_t before = out.size();
  switch (value.kind()) {
    case Kind::kString:
      append_quoted(value.as_bytes(), out);
      break;
    case Kind::kList: {
      const List& list = value.as_list();
      out += list.is_tuple ? '(' : '[';
      for (size_t i = 0; i < list.items.size(); ++i) {
        if (i > 0) out += ", ";
        append_repr(context, list.items[i], out);
      }
      if (list.is_tuple && list.items.size() == 1) out += ',';
      out += list.is_tuple ? ')' : ']';
      break;
    }
    case Kind::kDict: {
      out += '{';
      bool first = true;
      for (const auto& [key, item] : value.as_dict().entries()) {
        if (!first) out += ", ";
        first = false;
        append_repr(context, key, out);
        out += ": ";
        append_repr(context, item, out);
      }
      out += '}';
      break;
    }
    case Kind::kUndefined:
      out += "Undefined";
      break;
    default:
      out += to_text(context, value).bytes();
      break;
  }
  context.charge_bytes(out.size() - before);
}

}  // namespace

std::string_view Value::kind_name() const noexcept {
  static constexpr std::array<std::string_view, 10> kNames{
      "an undefined value", "none",   "a boolean", "an integer",  "a float",
      "a string",           "a list", "a mapping", "a namespace", "a function"};
  return kNames[static_cast<size_t>(kind_)];
}

const Value* Dict::find(const Value& key) const {
  const auto found = index_.find(key_of(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::find(std::string_view key) const {
  std::string name = "s";
  name += key;
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

bool Dict::set(const Value& key, Value value) {
  std::string name = key_of(key);
  if (name.empty()) return false;
  const auto [place, is_new] = index_.try_emplace(std::move(name), entries_.size());
  if (is_new)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[place->second].second = std::move(value);
  return true;
}

void Dict::set(std::string_view key, Value value) { set(Value::input(std::string(key)), std::move(value)); }

void Dict::erase(const Value& key) {
  const auto found = index_.find(key_of(key));
  if (found == index_.end()) return;
  const size_t place = found->second;
  index_.erase(found);
  entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(place));
  for (auto& [name, at] : index_) {
    if (at > place) --at;
  }
}

Value Context::new_list(std::vector<Value> items, bool is_tuple) {
  lists_.push_back({std::move(items), is_tuple});
  return Value(&lists_.back());
}

Value Context::new_dict() { return Value(&dicts_.emplace_back()); }

Value Context::new_namespace() { return Value(&namespaces_.emplace_back()); }

Value Context::new_function(Function function) {
  functions_.push_back(std::move(function));
  return Value(&std::as_const(functions_.back()));
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_integer() != 0;
    case Kind::kFloat:
      return value.as_number() != 0;
    case Kind::kString:
      return !value.as_text().empty();
    case Kind::kList:
      return !value.as_list().items.empty();
    case Kind::kDict:
      return !value.as_dict().entries().empty();
    case Kind::kNamespace:
    case Kind::kFunction:
      return true;
  }
  return false;
}

bool equal(Context& context, const Value& a, const Value& b) {
  const Context::Level level(context);
  context.charge(1);
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  if (a.is_numeric() && b.is_numeric()) return a.as_number() == b.as_number();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      context.charge_bytes(a.as_text().size());
      return a.as_bytes() == b.as_bytes();
    case Kind::kList: {
      const List& x = a.as_list();
      const List& y = b.as_list();
      if (x.is_tuple != y.is_tuple || x.items.size() != y.items.size()) return false;
      for (size_t i = 0; i < x.items.size(); ++i) {
        if (!equal(context, x.items[i], y.items[i])) return false;
      }
      return true;
    }
    case Kind::kDict: {
      const Dict& x = a.as_dict();
      const Dict& y = b.as_dict();
      if (x.entries().size() != y.entries().size()) return false;
      for (const auto& [key, item] : x.entries()) {
        const Value* other = y.find(key);
        if (other == nullptr || !equal(context, item, *other)) return false;
      }
      return true;
    }
    case Kind::kNamespace:
      return &a.as_namespace() == &b.as_namespace();
    case Kind::kFunction:
      return &a.as_function() == &b.as_function();
    default:
      return true;  // undefined or none
  }
}

/// Python's repr() of a float: the shortest digits that give the same number back, plain from 1e-4 to below 1e16.
std::string float_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.begin(), buffer.end(), x, std::chars_format::scientific).ptr;
  const std::string_view all(buffer.data(), static_cast<size_t>(end - buffer.begin()));
  const size_t e = all.find('e');
  int exponent = 0;
  const size_t exponent_begin = e + (all[e + 1] == '+' ? 2 : 1);
  std::from_chars(all.data() + exponent_begin, all.data() + all.size(), exponent);
  std::string text;
  std::string digits;
  for (const char c : all.substr(0, e)) {
    if (c == '-') text += c;
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < -4 || exponent >= 16) {
    text += digits[0];
    if (digits.size() > 1) text += "." + digits.substr(1);
    return text + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return text + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t n_whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= n_whole) return text + digits + std::string(n_whole - digits.size(), '0') + ".0";
  return text + digits.substr(0, n_whole) + "." + digits.substr(n_whole);
}

Text to_text(Context& context, const Value& value) {
  std::string text;
  switch (value.kind()) {
    case Kind::kString:
      return value.as_text();
    case Kind::kUndefined:
      break;
    case Kind::kNone:
      text = "None";
      break;
    case Kind::kBool:
      text = value.as_bool() ? "True" : "False";
      break;
    case Kind::kInt:
      text = std::to_string(value.as_integer());
      break;
    case Kind::kFloat:
      text = float_text(value.as_number());
      break;
    case Kind::kList:
    case Kind::kDict:
      append_repr(context, value, text);
      break;
    case Kind::kNamespace:
      text = "<Namespace>";
      break;
    case Kind::kFunction:
      text = "<Function " + value.as_function().name + ">";
      break;
  }
  return Text(std::move(text), false);
}

std::vector<Value> elements_of(Context& context, const Value& value) {
  std::vector<Value> elements;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kList:
      elements = value.as_list().items;
      break;
    case Kind::kDict:
      for (const auto& [key, item] : value.as_dict().entries()) elements.push_back(key);
      break;
    case Kind::kString: {
      const Text& text = value.as_text();
      for (size_t pos = 0; pos < text.size();) {
        const size_t n = character_at(text.bytes(), pos).n_bytes;
        context.charge(4);
        elements.push_back(Value::string(text.substr(pos, n)));
        pos += n;
      }
      break;
    }
    default:
      context.fail(ErrorCode::kFormat, "{} has no elements to go through", value.kind_name());
  }
  context.charge(1 + elements.size());
  return elements;
}

}  // namespace kda::jinja
