#include "cli/line_editor.h"

#include <gtest/gtest.h>

#include "cli/text.h"

namespace kda::cli {
namespace {

using Event = LineEditor::Event;

class Editor : public ::testing::Test {
 protected:
  Editor() { use_utf8_locale(); }

  /// Feeds all bytes and gives the last event.
  Event type(std::string_view bytes) {
    Event last = Event::kNone;
    for (const char c : bytes) last = editor.feed(static_cast<uint8_t>(c));
    return last;
  }
  std::string before_cursor() const { return editor.text().substr(0, editor.cursor()); }

  std::vector<std::string> history{"first", "second line", "the third"};
  LineEditor editor{history, [](std::string_view prefix) {
                      std::vector<std::string> out;
                      for (const char* name : {"/save", "/stats", "/system", "/help"}) {
                        if (std::string_view(name).starts_with(prefix)) out.emplace_back(name);
                      }
                      return out;
                    }};
};

TEST_F(Editor, TypesAndAccepts) {
  EXPECT_EQ(type("hello"), Event::kChanged);
  EXPECT_EQ(editor.text(), "hello");
  EXPECT_EQ(editor.cursor(), 5U);
  EXPECT_EQ(type("\r"), Event::kAccept);
  EXPECT_EQ(editor.text(), "hello");
}

TEST_F(Editor, MovesWithEmacsKeysAndArrows) {
  type("one two");
  type("\x01");
  EXPECT_EQ(before_cursor(), "");
  type("\x06\x06");
  EXPECT_EQ(before_cursor(), "on");
  type("\x02");
  EXPECT_EQ(before_cursor(), "o");
  type("\x05");
  EXPECT_EQ(before_cursor(), "one two");
  type("\x1b[D");
  EXPECT_EQ(before_cursor(), "one tw");
  type("\x1b[C");
  EXPECT_EQ(before_cursor(), "one two");
  type("\x1b[1;5D");
  EXPECT_EQ(before_cursor(), "one ");
  type(
      "\x1b"
      "b");
  EXPECT_EQ(before_cursor(), "");
  type(
      "\x1b"
      "f");
  EXPECT_EQ(before_cursor(), "one");
  type("\x1b[H");
  EXPECT_EQ(before_cursor(), "");
  type("\x1bOF");
  EXPECT_EQ(before_cursor(), "one two");
}

TEST_F(Editor, StepsOverWholeCharactersAndTheirMarks) {
  type("a\u00e9\u6f22e\u0301");  // é, 漢, e with a combining acute
  EXPECT_EQ(type("\x02"), Event::kChanged);
  EXPECT_EQ(before_cursor(), "a\u00e9\u6f22");
  type("\x02");
  EXPECT_EQ(before_cursor(), "a\u00e9");
  type("\x7f");
  EXPECT_EQ(editor.text(), "a\u6f22e\u0301");
  type("\x05\x7f");
  EXPECT_EQ(editor.text(), "a\u6f22");
}

TEST_F(Editor, DropsBytesThatAreNoUtf8) {
  type("a\xff\xc3(\x80z\xe6\xbc");
  EXPECT_EQ(editor.text(), "a(z");
  type("\xa2");
  EXPECT_EQ(editor.text(), "a(z\u6f22");
}

TEST_F(Editor, DeletesAndYanks) {
  type("alpha beta gamma");
  type("\x17");
  EXPECT_EQ(editor.text(), "alpha beta ");
  type("\x01\x19");
  EXPECT_EQ(editor.text(), "gammaalpha beta ");
  type("\x0b");
  EXPECT_EQ(editor.text(), "gamma");
  type("\x15");
  EXPECT_EQ(editor.text(), "");
  type("\x19");
  EXPECT_EQ(editor.text(), "gamma");
  type("\x01\x04");
  EXPECT_EQ(editor.text(), "amma");
  type("\x1b[3~");
  EXPECT_EQ(editor.text(), "mma");
  type(
      "\x1b"
      "d");
  EXPECT_EQ(editor.text(), "");
}

TEST_F(Editor, TransposesCharacters) {
  type("ab\x14");
  EXPECT_EQ(editor.text(), "ba");
  type("\u00e9\x14");
  EXPECT_EQ(editor.text(),
            "b\u00e9"
            "a");
  EXPECT_EQ(type("\x01\x14"), Event::kBell);
}

TEST_F(Editor, SignalsInterruptEndSuspendAndClear) {
  EXPECT_EQ(type("\x04"), Event::kEndOfInput);
  EXPECT_EQ(type("x\x03"), Event::kInterrupt);
  EXPECT_EQ(type("\x1a"), Event::kSuspend);
  EXPECT_EQ(type("\x0c"), Event::kClearScreen);
  EXPECT_EQ(type("\x01\x04"), Event::kChanged) << "Ctrl-D deletes where there is text";
}

TEST_F(Editor, WalksThroughHistoryAndComesBackToTheDraft) {
  type("draft");
  type("\x1b[A");
  EXPECT_EQ(editor.text(), "the third");
  type("\x10\x10");
  EXPECT_EQ(editor.text(), "first");
  EXPECT_EQ(type("\x10"), Event::kBell);
  type("\x0e\x0e\x1b[B");
  EXPECT_EQ(editor.text(), "draft");
  EXPECT_EQ(type("\x0e"), Event::kBell);
}

TEST_F(Editor, SearchesHistoryBackwards) {
  type("draft\x12");
  EXPECT_TRUE(editor.searching());
  type("i");
  EXPECT_EQ(editor.text(), "the third");
  type("\x12");
  EXPECT_EQ(editor.text(), "second line");
  type("n");
  EXPECT_EQ(editor.text(), "second line");
  EXPECT_EQ(editor.search_query(), "in");
  EXPECT_EQ(type("q"), Event::kBell);
  type("\x7f\x7f");
  EXPECT_EQ(editor.text(), "the third");
  EXPECT_EQ(type("\r"), Event::kAccept);
  EXPECT_FALSE(editor.searching());
}

TEST_F(Editor, LeavingTheSearchWithCtrlGRestoresTheLine) {
  type(
      "draft\x12"
      "first");
  EXPECT_EQ(editor.text(), "first");
  EXPECT_EQ(type("\x07"), Event::kChanged);
  EXPECT_EQ(editor.text(), "draft");
  EXPECT_FALSE(editor.searching());
}

TEST_F(Editor, OtherKeysTakeTheMatchOver) {
  type("\x12sec\x01");
  EXPECT_FALSE(editor.searching());
  EXPECT_EQ(editor.text(), "second line");
  EXPECT_EQ(editor.cursor(), 0U);
  type(
      "\x05\x12"
      "first\x1b[C");
  EXPECT_FALSE(editor.searching());
  EXPECT_EQ(editor.text(), "first");
}

TEST_F(Editor, KeepsAPasteWithLineBreaksTogether) {
  EXPECT_EQ(type("\x1b[200~line 1\r\nline 2\rline 3\n\x1b[201~"), Event::kChanged);
  EXPECT_EQ(editor.text(), "line 1\nline 2\nline 3\n");
  EXPECT_EQ(type("\r"), Event::kAccept);
  EXPECT_EQ(message_text(editor.text()), "line 1\nline 2\nline 3");
}

TEST_F(Editor, KeysInsideAPasteAreText) {
  type("\x1b[200~a\x03\x04\x1b[A\tb\xff\x1b[201~");
  EXPECT_EQ(editor.text(), "a[A\tb\ufffd");
}

TEST_F(Editor, RefusesAPasteThatIsTooLong) {
  const std::string big(LineEditor::kMaxTextBytes + 1, 'x');
  EXPECT_EQ(type("a\x1b[200~" + big + "\x1b[201~"), Event::kBell);
  EXPECT_EQ(editor.text(), "a");
  const std::string huge(3 * LineEditor::kMaxTextBytes, 'x');
  EXPECT_EQ(type("\x1b[200~" + huge + "\x1b[201~"), Event::kBell);
  type("b");
  EXPECT_EQ(editor.text(), "ab");
}

TEST_F(Editor, BackslashAtTheEndBeginsANewLine) {
  EXPECT_EQ(type("one\\\r"), Event::kChanged);
  type("two");
  EXPECT_EQ(editor.text(), "one\ntwo");
  EXPECT_EQ(type("\\\\\r"), Event::kAccept) << "two backslashes are text";
}

TEST_F(Editor, AltEnterBeginsANewLine) {
  type("one\x1b\rtwo");
  EXPECT_EQ(editor.text(), "one\ntwo");
}

TEST_F(Editor, BlockQuotesHoldLineBreaks) {
  type("\"\"\"\r");
  type("one\r");
  type("two");
  EXPECT_EQ(type("\r"), Event::kChanged);
  EXPECT_EQ(type("\"\"\"\r"), Event::kAccept);
  EXPECT_EQ(message_text(editor.text()), "one\ntwo");
}

TEST_F(Editor, ArrowsMoveBetweenLinesBeforeTheyReachHistory) {
  type("\u6f22\u6f22xy\x1b\rabc");
  type("\x1b[A");
  EXPECT_EQ(before_cursor(), "\u6f22") << "column 3 lies inside the second wide character";
  type("\x1b[B");
  EXPECT_EQ(before_cursor(), "\u6f22\u6f22xy\nab");
  type("\x10\x10");
  EXPECT_EQ(editor.text(), "the third");
}

TEST_F(Editor, TabCompletesCommands) {
  EXPECT_EQ(type("/h\t"), Event::kChanged);
  EXPECT_EQ(editor.text(), "/help ");
  editor.start();
  EXPECT_EQ(type("/s\t"), Event::kBell);
  EXPECT_EQ(type("\t"), Event::kCandidates);
  EXPECT_EQ(editor.candidates(), (std::vector<std::string>{"/save", "/stats", "/system"}));
  EXPECT_EQ(type("ys\t"), Event::kChanged);
  EXPECT_EQ(editor.text(), "/system ");
  EXPECT_EQ(type("\t"), Event::kBell);
}

TEST_F(Editor, IgnoresUnknownSequences) {
  type(
      "a\x1b[99~\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17Zb\x1b[\x01"
      "c");
  EXPECT_EQ(editor.text(), "cab");
}

TEST(MessageText, StripsBlockQuotesOnlyAroundTheWholeText) {
  EXPECT_EQ(message_text("\"\"\"a\"\"\""), "a");
  EXPECT_EQ(message_text("  \"\"\"\na\n\"\"\" "), "a");
  EXPECT_EQ(message_text("\"\"\"doc\"\"\"\ncode"), "\"\"\"doc\"\"\"\ncode");
  EXPECT_EQ(message_text("\"\"\"\"\"\""), "");
  EXPECT_EQ(message_text("\"\"\"\""), "\"\"\"\"");
  EXPECT_EQ(message_text("plain\n\n"), "plain");
}

TEST(InsideBlock, EndsWithTheSecondQuotes) {
  EXPECT_TRUE(inside_block("\"\"\"a"));
  EXPECT_TRUE(inside_block("\"\"\"\"\""));
  EXPECT_FALSE(inside_block("\"\"\"a\"\"\""));
  EXPECT_FALSE(inside_block("a \"\"\""));
}

}  // namespace
}  // namespace kda::cli
