#include "chat/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace kda::jinja {
namespace {

constexpr size_t kMaxJsonDepth = 64;

/// Builds values from the events of the JSON parser.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(Context& context, std::string_view subject) : context_(context), subject_(subject) {}

  bool null() override { return add(Value::none()); }
  bool boolean(bool b) override { return add(Value::boolean(b)); }
  bool number_integer(number_integer_t i) override { return add(Value::integer(i)); }
  bool number_unsigned(number_unsigned_t u) override {
    if (u > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()))
      return add(Value::number(static_cast<double>(u)));
    return add(Value::integer(static_cast<int64_t>(u)));
  }
  bool number_float(number_float_t x, const string_t&) override { return add(Value::number(x)); }
  bool string(string_t& text) override { return add(Value::input(std::move(text))); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool start_object(size_t) override { return open(context_.new_dict()); }
  bool start_array(size_t) override { return open(context_.new_list()); }
  bool key(string_t& text) override {
    keys_.back() = Value::input(std::move(text));
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    kda::fail(ErrorCode::kFormat, "{}: not valid JSON at byte {}", subject_, position);
  }

  Value result;

 private:
  bool add(Value value) {
    if (open_.empty())
      result = std::move(value);
    else if (open_.back().is(Kind::kList))
      open_.back().as_list().items.push_back(std::move(value));
    else
      open_.back().as_dict().set(keys_.back(), std::move(value));
    return true;
  }
  bool open(const Value& container) {
    if (open_.size() == kMaxJsonDepth)
      kda::fail(ErrorCode::kFormat, "{}: JSON is nested deeper than {} levels", subject_, kMaxJsonDepth);
    add(container);
    open_.push_back(container);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  Context& context_;
  std::string_view subject_;
  std::vector<Value> open_;
  std::vector<Value> keys_;  // the latest key of each open container
};

class Writer {
 public:
  Writer(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  void write(const Value& value, int64_t level) {
    const Context::Level guard(context_);
    context_.charge(1);
    switch (value.kind()) {
      case Kind::kString:
        write_string(value.as_text());
        break;
      case Kind::kList: {
        const auto& items = value.as_list().items;
        write_items('[', ']', items.size(), level, [&](size_t i) { write(items[i], level + 1); });
        break;
      }
      case Kind::kDict:
        write_dict(value.as_dict(), level);
        break;
      default:
        put(scalar(value));
    }
  }

  Text out;

 private:
  void put(std::string_view text) {
    context_.charge_bytes(text.size());
    out.append(text, false);
  }

  std::string scalar(const Value& value) const {
    switch (value.kind()) {
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return value.as_bool() ? "true" : "false";
      case Kind::kInt:
        return std::to_string(value.as_integer());
      case Kind::kFloat:
        if (std::isnan(value.as_number())) return "NaN";
        if (std::isinf(value.as_number())) return value.as_number() > 0 ? "Infinity" : "-Infinity";
        return float_text(value.as_number());
      default:
        context_.fail(ErrorCode::kFormat, "tojson: {} cannot be written as JSON", value.kind_name());
    }
  }

  template <typename WriteItem>
  void write_items(char begin, char end, size_t n, int64_t level, WriteItem write_item) {
    put(std::string_view(&begin, 1));
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(level + 1);
      write_item(i);
    }
    if (n > 0) new_line(level);
    put(std::string_view(&end, 1));
  }

  void new_line(int64_t level) {
    if (style_.indent) put("\n" + std::string(static_cast<size_t>(*style_.indent * level), ' '));
  }

  void write_dict(const Dict& dict, int64_t level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      context_.charge(entries.size() * 4);
      for (const Dict::Entry* entry : entries) {
        if (!entry->first.is_string()) context_.fail(ErrorCode::kFormat, "tojson: keys to sort must be strings");
      }
      std::sort(entries.begin(), entries.end(),
                [](const Dict::Entry* a, const Dict::Entry* b) { return a->first.as_bytes() < b->first.as_bytes(); });
    }
    write_items('{', '}', entries.size(), level, [&](size_t i) {
      const auto& [key, value] = *entries[i];
      write_string(key.is_string() ? key.as_text() : Text(scalar(key), false));
      put(style_.key_separator);
      write(value, level + 1);
    });
  }

  void write_string(const Text& text) {
    context_.charge_bytes(text.size());
    const std::string& bytes = text.bytes();
    out.append("\"", false);
    size_t plain = 0;  // bytes before this one are written
    for (size_t pos = 0; pos < bytes.size();) {
      const Character c = character_at(bytes, pos);
      const std::string escape = escape_of(c.code_point);
      if (!escape.empty()) {
        out.append_range(text, plain, pos - plain);
        out.append(escape, false);
        plain = pos + c.n_bytes;
      }
      pos += c.n_bytes;
    }
    out.append_range(text, plain, bytes.size() - plain);
    out.append("\"", false);
  }

  std::string escape_of(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto code = static_cast<uint32_t>(c);
    if (code < 0x20 || (style_.ensure_ascii && code >= 0x7F && code < 0x10000)) return fmt::format("\\u{:04x}", code);
    if (style_.ensure_ascii && code >= 0x10000)
      return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF));
    return {};
  }

  Context& context_;
  const JsonStyle& style_;
};

}  // namespace

Value parse_json(Context& context, std::string_view text, std::string_view subject) {
  Builder builder(context, subject);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result;
}

Text to_json(Context& context, const Value& value, const JsonStyle& style) {
  Writer writer(context, style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace kda::jinja
