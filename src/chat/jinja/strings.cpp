#include "chat/jinja/strings.h"

#include <algorithm>

namespace kda::jinja {
namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool occurs_in(std::string_view character, std::string_view characters) {
  for (size_t pos = 0; pos < characters.size();) {
    const size_t n = character_at(characters, pos).n_bytes;
    if (characters.substr(pos, n) == character) return true;
    pos += n;
  }
  return false;
}

}  // namespace

Text stripped(Context& context, const Text& text, bool spaces, std::string_view characters, bool left, bool right) {
  context.charge_bytes(text.size());
  const std::string_view bytes = text.bytes();
  if (spaces) {
    const size_t begin = left ? leading_spaces(bytes) : 0;
    const size_t end = right ? bytes.size() - trailing_spaces(bytes.substr(begin)) : bytes.size();
    return text.substr(begin, end - begin);
  }
  context.charge_bytes(text.size() / 4 * (1 + characters.size()));
  size_t begin = bytes.size();  // the first character that stays
  size_t end = 0;               // after the last one
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t n = character_at(bytes, pos).n_bytes;
    if (!occurs_in(bytes.substr(pos, n), characters)) {
      begin = std::min(begin, pos);
      end = pos + n;
    }
    pos += n;
  }
  if (!left) begin = 0;
  if (!right) end = bytes.size();
  return end > begin ? text.substr(begin, end - begin) : Text();
}

Value split_at(Context& context, const Text& text, std::string_view separator, int64_t n_max) {
  context.charge_bytes(text.size());
  std::vector<Value> parts;
  size_t begin = 0;
  while (n_max < 0 || static_cast<int64_t>(parts.size()) < n_max) {
    const size_t end = text.bytes().find(separator, begin);
    if (end == std::string::npos) break;
    context.charge(4);
    parts.push_back(Value::string(text.substr(begin, end - begin)));
    begin = end + separator.size();
  }
  parts.push_back(Value::string(text.substr(begin)));
  return context.new_list(std::move(parts));
}

Value split_at_spaces(Context& context, const Text& text, int64_t n_max) {
  context.charge_bytes(text.size());
  const std::string_view bytes = text.bytes();
  std::vector<Value> parts;
  size_t begin = leading_spaces(bytes);
  while (begin < bytes.size()) {
    context.charge(4);
    if (n_max >= 0 && static_cast<int64_t>(parts.size()) >= n_max) {
      parts.push_back(Value::string(text.substr(begin)));
      break;
    }
    size_t end = begin;
    for (Character c{}; end < bytes.size(); end += c.n_bytes) {
      c = character_at(bytes, end);
      if (is_space(c.code_point)) break;
    }
    parts.push_back(Value::string(text.substr(begin, end - begin)));
    begin = end + leading_spaces(bytes.substr(end));
  }
  return context.new_list(std::move(parts));
}

Text replace_all(Context& context, const Text& text, std::string_view from, const Text& to, int64_t n_max) {
  if (from.empty()) context.fail(ErrorCode::kUnsupported, "replacing the empty string is not supported");
  context.charge_bytes(text.size());
  Text result;
  size_t begin = 0;
  for (int64_t n = 0; n_max < 0 || n < n_max; ++n) {
    const size_t at = text.bytes().find(from, begin);
    if (at == std::string::npos) break;
    result.append_range(text, begin, at - begin);
    context.charge_bytes(to.size());
    result.append(to);
    context.check_output(result.size());
    begin = at + from.size();
  }
  result.append_range(text, begin, text.size() - begin);
  return result;
}

Text uppercase(Context& context, const Text& text) {
  context.charge_bytes(text.size());
  return text.map_bytes(upper);
}

Text lowercase(Context& context, const Text& text) {
  context.charge_bytes(text.size());
  return text.map_bytes(lower);
}

Text capitalized(Context& context, const Text& text) {
  Text result = uppercase(context, text.substr(0, 1));
  result.append(lowercase(context, text.substr(1)));
  return result;
}

Text titlecase(Context& context, const Text& text) {
  context.charge_bytes(text.size());
  bool begins_word = true;
  return text.map_bytes([&](char c) {
    const char result = begins_word ? upper(c) : lower(c);
    begins_word = std::string_view(" \t\n\v\f\r-({[<").find(c) != std::string::npos;
    return result;
  });
}

Value items_of(Context& context, const Value& dict) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.as_dict().entries()) {
    context.charge(4);
    items.push_back(context.new_list({key, value}, true));
  }
  return context.new_list(std::move(items));
}

}  // namespace kda::jinja
