// UTF-8 and terminal columns, as far as showing and editing text needs them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kda::cli {

/// Makes the C library's character tables (wcwidth) work on Unicode: takes the user's locale where it is UTF-8, C.UTF-8
/// otherwise. Call once at start, before other threads run.
void use_utf8_locale() noexcept;

struct CodePoint {
  char32_t value = 0;
  size_t size = 1;     // bytes taken from the text
  bool valid = false;  // false: one byte that begins no character
};

/// The character that begins at text[at], at < text.size().
[[nodiscard]] CodePoint code_point_at(std::string_view text, size_t at) noexcept;

/// Columns that a character takes: 0 for combining marks, 2 for wide ones.
[[nodiscard]] int column_width(char32_t c) noexcept;

/// Columns of a text without line breaks.
[[nodiscard]] int column_width(std::string_view text) noexcept;

/// Byte offset after / before the character at `at`, marks of zero width included.
[[nodiscard]] size_t next_character(std::string_view text, size_t at) noexcept;
[[nodiscard]] size_t previous_character(std::string_view text, size_t at) noexcept;

/// Text fit for an editor: valid UTF-8, line breaks as '\n', no control characters but '\n' and '\t'.
[[nodiscard]] std::string clean_input(std::string_view bytes);

/// Text fit for a terminal: control characters (escape sequences among them) other than '\n' and '\t' are left out.
[[nodiscard]] std::string terminal_safe(std::string_view text);

/// A message as one line: control characters and bytes that are not UTF-8 as \xNN.
[[nodiscard]] std::string one_line(std::string_view text);

/// Readable and unambiguous: quotes around it; backslash, quote, control characters and invalid bytes escaped.
[[nodiscard]] std::string quote(std::string_view bytes);

/// True when all of it is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

}  // namespace kda::cli
