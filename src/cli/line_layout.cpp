#include "cli/line_layout.h"

#include <algorithm>

#include "cli/text.h"

namespace kda::cli {

namespace {

constexpr int kTabColumns = 4;

}  // namespace

LineLayout lay_out(std::string_view prompt, std::string_view continuation, std::string_view text, size_t cursor,
                   int columns) {
  columns = std::max({columns, column_width(prompt) + 2, column_width(continuation) + 2});
  LineLayout out;
  out.rows.emplace_back(prompt);
  int x = column_width(prompt);
  const auto mark_cursor = [&] {
    out.cursor_row = out.rows.size() - 1;
    out.cursor_column = x;
  };
  for (size_t i = 0; i < text.size();) {
    const size_t next = next_character(text, i);
    const std::string_view character = text.substr(i, next - i);
    if (character.front() == '\n') {
      if (cursor >= i && cursor < next) mark_cursor();
      out.rows.emplace_back(continuation);
      x = column_width(continuation);
      i = next;
      continue;
    }
    const bool is_tab = character.front() == '\t';
    const int width = is_tab ? kTabColumns : column_width(character);
    if (x + width > columns) {
      out.rows.emplace_back();
      x = 0;
    }
    if (cursor >= i && cursor < next) mark_cursor();
    if (is_tab) {
      out.rows.back().append(kTabColumns, ' ');
    } else {
      out.rows.back() += character;
    }
    x += width;
    if (x >= columns) {  // the cursor behind the last column stands in the next row
      out.rows.emplace_back();
      x = 0;
    }
    i = next;
  }
  if (cursor >= text.size()) mark_cursor();
  return out;
}

}  // namespace kda::cli
