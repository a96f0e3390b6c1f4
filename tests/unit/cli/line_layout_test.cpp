#include "cli/line_layout.h"

#include <gtest/gtest.h>

#include "cli/text.h"

namespace kda::cli {
namespace {

using Rows = std::vector<std::string>;

class Layout : public ::testing::Test {
 protected:
  Layout() { use_utf8_locale(); }
};

TEST_F(Layout, PutsTheCursorBehindThePrompt) {
  const LineLayout l = lay_out("> ", ". ", "abc", 1, 20);
  EXPECT_EQ(l.rows, (Rows{"> abc"}));
  EXPECT_EQ(l.cursor_row, 0U);
  EXPECT_EQ(l.cursor_column, 3);
}

TEST_F(Layout, WrapsAtTheLastColumn) {
  const LineLayout l = lay_out("> ", ". ", "abcdefghij", 10, 8);
  EXPECT_EQ(l.rows, (Rows{"> abcdef", "ghij"}));
  EXPECT_EQ(l.cursor_row, 1U);
  EXPECT_EQ(l.cursor_column, 4);
}

TEST_F(Layout, PutsTheCursorOfAFullRowOnTheNext) {
  const LineLayout l = lay_out("> ", ". ", "abcdef", 6, 8);
  EXPECT_EQ(l.rows, (Rows{"> abcdef", ""}));
  EXPECT_EQ(l.cursor_row, 1U);
  EXPECT_EQ(l.cursor_column, 0);
}

TEST_F(Layout, DoesNotSplitAWideCharacter) {
  const LineLayout l = lay_out("> ", ". ", "abcde\u6f22z", 5, 8);
  EXPECT_EQ(l.rows, (Rows{"> abcde", "\u6f22z"}));
  EXPECT_EQ(l.cursor_row, 1U);
  EXPECT_EQ(l.cursor_column, 0);
}

TEST_F(Layout, KeepsMarksWithTheirCharacter) {
  const LineLayout l = lay_out("> ", ". ", "e\u0301x", 3, 8);
  EXPECT_EQ(l.rows, (Rows{"> e\u0301x"}));
  EXPECT_EQ(l.cursor_column, 3);
}

TEST_F(Layout, BeginsLinesWithTheContinuationPrompt) {
  const LineLayout l = lay_out("> ", ". ", "ab\n\tcd", 3, 20);
  EXPECT_EQ(l.rows, (Rows{"> ab", ".     cd"}));
  EXPECT_EQ(l.cursor_row, 1U);
  EXPECT_EQ(l.cursor_column, 2);
}

TEST_F(Layout, SurvivesTerminalsWithoutColumns) {
  for (const int columns : {-1, 0, 1, 2, 3}) {
    EXPECT_GE(lay_out(">>> ", "... ", "\u6f22\t\u6f22x", 3, columns).rows.size(), 2U);
  }
}

TEST(Text, QuoteIsReadableAndUnambiguous) {
  EXPECT_EQ(quote(" a\"\\\n\t\r"), "\" a\\\"\\\\\\n\\t\\r\"");
  EXPECT_EQ(quote("\xe6\xbc"), "\"\\xe6\\xbc\"");
  EXPECT_EQ(quote("\u6f22"), "\"\u6f22\"");
  EXPECT_EQ(quote(std::string_view("\0\x1b", 2)), "\"\\x00\\x1b\"");
  EXPECT_EQ(quote("\u0085"), "\"\\xc2\\x85\"");
}

TEST(Text, AMessageStaysOneLine) { EXPECT_EQ(one_line("a\x1b[31mb\nc\xff \u00e4"), "a\\x1b[31mb\\x0ac\\xff \u00e4"); }

TEST(Text, TerminalSafeLeavesOutEscapes) { EXPECT_EQ(terminal_safe("a\x1b[31mb\r\n\tc\u009bd\xff"), "a[31mb\n\tcd"); }

TEST(Text, TellsUtf8FromOtherBytes) {
  EXPECT_TRUE(is_utf8("a\u00e9\u6f22\U0001F600"));
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe6\xbc"}) {
    EXPECT_FALSE(is_utf8(bad)) << quote(bad);
  }
}

TEST(Text, CountsColumns) {
  use_utf8_locale();
  EXPECT_EQ(column_width("abc"), 3);
  EXPECT_EQ(column_width("\u6f22\u5b57"), 4);
  EXPECT_EQ(column_width("e\u0301"), 1);
}

}  // namespace
}  // namespace kda::cli
