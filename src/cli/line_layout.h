// Where the characters of an edited text stand on a terminal of a given width. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kda::cli {

struct LineLayout {
  std::vector<std::string> rows;  // each at most `columns` wide
  size_t cursor_row = 0;
  int cursor_column = 0;
};

/// Wraps text after `prompt` (first line) and `continuation` (lines after a '\n'); cursor is a byte offset in text.
/// Terminals narrower than the prompts and two columns are treated as that wide.
[[nodiscard]] LineLayout lay_out(std::string_view prompt, std::string_view continuation, std::string_view text,
                                 size_t cursor, int columns);

}  // namespace kda::cli
