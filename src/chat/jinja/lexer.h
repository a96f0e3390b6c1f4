// Template text -> tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kda::jinja {

enum class TokenType {
  kData,           // text to write as it is
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kInteger,
  kFloat,
  kString,  // text: what the literal stands for
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  std::string text;
  int line;  // from 1
};

/// Throws Error(code) as "chat template, line N: ...".
template <typename... Args>
[[noreturn]] void fail_at(int line, ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format("chat template, line {}: {}", line, fmt::format(format, std::forward<Args>(args)...)));
}

/// Cuts a template into tokens, with Jinja's trim_blocks and lstrip_blocks on: the newline after a block tag and the
/// spaces of the line before it are dropped. Comments vanish, and so does one newline at the very end.
/// Throws Error(kFormat | kUnsupported) with the line.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace kda::jinja
