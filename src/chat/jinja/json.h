// JSON text <-> values of the template language.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/jinja/value.h"

namespace kda::jinja {

/// Parses JSON; keys keep their order, of equal keys the last one counts, integers beyond 64 bits become floats.
/// Strings count as input, not as written by a template. Throws Error(kFormat) that names `subject`.
[[nodiscard]] Value parse_json(Context& context, std::string_view text, std::string_view subject);

/// As for Python's json.dumps.
struct JsonStyle {
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::optional<int64_t> indent{};  // spaces a level; items go on lines of their own
  bool ensure_ascii = false;
  bool sort_keys = false;
};

/// Strings keep their origin; everything that the JSON adds counts as input. Throws Error(kFormat) for values that JSON
/// does not have.
[[nodiscard]] Text to_json(Context& context, const Value& value, const JsonStyle& style);

}  // namespace kda::jinja
