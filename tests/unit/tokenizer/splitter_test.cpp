#include "tokenizer/splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "slow_pattern.h"

namespace kda {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
  Pieces pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = piece_end(text, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

TEST(Splitter, CutsBetweenLowerAndUpperCase) {
  EXPECT_EQ(split("HelloWorld"), (Pieces{"Hello", "World"}));
  EXPECT_EQ(split("HTTPServer ABc ABC"), (Pieces{"HTTPServer", " ABc", " ABC"}));
  EXPECT_EQ(split("getUserName"), (Pieces{"get", "User", "Name"}));
}

TEST(Splitter, KeepsContractionsWithTheirWord) {
  EXPECT_EQ(split("it's CAN'T we'Ve you'll"), (Pieces{"it's", " CAN'T", " we'Ve", " you'll"}));
  EXPECT_EQ(split("it'\u017F x"), (Pieces{"it'\u017F", " x"}));
  EXPECT_EQ(split("it'x it'lx"), (Pieces{"it", "'x", " it", "'lx"}));
  EXPECT_EQ(split("it'"), (Pieces{"it", "'"}));
}

TEST(Splitter, TakesDigitsByThrees) {
  EXPECT_EQ(split("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(split("a12b"), (Pieces{"a", "12", "b"}));
  // U+3007 is a number and Han: it may follow in a run of digits but begins a run of Han.
  EXPECT_EQ(split("1\u30072\u30071"), (Pieces{"1\u30072", "\u3007", "1"}));
}

TEST(Splitter, LeavesTheLastBlankToTheNextWord) {
  EXPECT_EQ(split("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(split("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split(" \n \n  x"), (Pieces{" \n \n", " ", " x"}));
  EXPECT_EQ(split("a  1"), (Pieces{"a", " ", " ", "1"}));
}

TEST(Splitter, JoinsSymbolsWithABlankBeforeAndNewlinesBehind) {
  EXPECT_EQ(split("x !?\n\ny"), (Pieces{"x", " !?\n\n", "y"}));
  EXPECT_EQ(split("((a"), (Pieces{"((", "a"}));
  EXPECT_EQ(split("(a"), (Pieces{"(a"}));
}

TEST(Splitter, SeparatesHanFromOtherLetters) {
  EXPECT_EQ(split("中文abc"), (Pieces{"中文", "abc"}));
  EXPECT_EQ(split("abc中文 世界"), (Pieces{"abc", "中文", " ", "世界"}));
  // U+2E80 is Han but no letter: the alternative for symbols takes it behind a blank, not U+3005.
  EXPECT_EQ(split(" \u2E80\u3005"), (Pieces{" \u2E80", "\u3005"}));
}

TEST(Splitter, CountsMarksAsLettersOfBothCases) {
  EXPECT_EQ(split("e\u0301A"), (Pieces{"e\u0301", "A"}));
  EXPECT_EQ(split("\u0301AB"), (Pieces{"\u0301", "AB"}));
  EXPECT_EQ(split("\u0301ab"), (Pieces{"\u0301ab"}));
}

TEST(Splitter, TakesBytesThatAreNotUtf8AsSymbols) {
  EXPECT_EQ(split("a\xFF\xFE"), (Pieces{"a", "\xFF\xFE"}));
  EXPECT_EQ(split("\xFFz"), (Pieces{"\xFFz"}));
  EXPECT_EQ(split("\xE4\xB8z"), (Pieces{"\xE4\xB8", "z"}));          // cut off
  EXPECT_EQ(split("\xED\xA0\x80z"), (Pieces{"\xED\xA0\x80", "z"}));  // a surrogate
  EXPECT_EQ(split("\xC1\xA1"
                  "1"),
            (Pieces{"\xC1\xA1", "1"}));  // overlong 'a'
  EXPECT_EQ(split("\xF4\x90\x80\x80"
                  "1"),
            (Pieces{"\xF4\x90\x80\x80", "1"}));
}

const std::vector<test::Symbol>& alphabet() {
  static const std::vector<test::Symbol> kAlphabet = {
      {.bytes = "A", .category = "Lu"},
      {.bytes = "b", .category = "Ll"},
      {.bytes = "\u02B0", .category = "Lm"},
      {.bytes = "\u0301", .category = "Mn"},
      {.bytes = "!", .category = "Po"},
      {.bytes = " ", .category = "Zs", .white = true},
      {.bytes = "\n", .category = "Cc", .white = true},
      {.bytes = "1", .category = "Nd"},
      {.bytes = "\u2E80", .category = "So", .han = true},
      // The first nine are a core that shorter tests run through.
      {.bytes = "\u4E2D", .category = "Lo", .han = true},
      {.bytes = "\u3007", .category = "Nl", .han = true},
      {.bytes = "\u05D0", .category = "Lo"},
      {.bytes = "\u01C5", .category = "Lt"},
      {.bytes = "\t", .category = "Cc", .white = true},
      {.bytes = "\u3000", .category = "Zs", .white = true},
      {.bytes = "\r", .category = "Cc", .white = true},
      {.bytes = "\xFF", .category = "--"},
      {.bytes = "'", .category = "Po"},
      {.bytes = "s", .category = "Ll"},
      {.bytes = "S", .category = "Lu"},
      {.bytes = "\u017F", .category = "Ll"},
      {.bytes = "l", .category = "Ll"},
      {.bytes = "V", .category = "Lu"},
      {.bytes = "e", .category = "Ll"},
      {.bytes = "\U0001F600", .category = "So"},
      {.bytes = "\U0010FFFF", .category = "Cn"},
  };
  return kAlphabet;
}

// Whether the fast splitter cuts where the slow one does.
::testing::AssertionResult agrees(std::span<const test::Symbol* const> text) {
  std::string bytes;
  std::vector<size_t> offsets = {0};
  for (const test::Symbol* symbol : text) {
    bytes += symbol->bytes;
    offsets.push_back(bytes.size());
  }
  std::vector<size_t> expected;
  for (const size_t end : test::split_slowly(text)) expected.push_back(offsets[end]);
  std::vector<size_t> found;
  for (size_t begin = 0; begin < bytes.size();) found.push_back(begin = piece_end(bytes, begin));
  if (found == expected) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "text " << ::testing::PrintToString(bytes) << ": found "
                                       << ::testing::PrintToString(found) << ", expected "
                                       << ::testing::PrintToString(expected);
}

void try_all(size_t n_symbols, size_t length) {
  std::vector<size_t> digits(length, 0);
  std::vector<const test::Symbol*> text(length, &alphabet()[0]);
  for (;;) {
    ASSERT_TRUE(agrees(text));
    size_t i = 0;
    while (i < length && ++digits[i] == n_symbols) digits[i++] = 0;
    if (i == length) return;
    for (size_t k = 0; k <= i; ++k) text[k] = &alphabet()[digits[k]];
  }
}

TEST(Splitter, AgreesWithTheBacktrackingMatcherOnAllShortTexts) {
  for (size_t length = 1; length <= 3; ++length) try_all(alphabet().size(), length);
  for (size_t length = 4; length <= 5; ++length) try_all(9, length);
}

TEST(Splitter, AgreesWithTheBacktrackingMatcherOnRandomTexts) {
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) {
    // Few different symbols, so that runs come up.
    const size_t n_symbols = 2 + random() % 8;
    std::vector<const test::Symbol*> choice(n_symbols);
    for (auto& symbol : choice) symbol = &alphabet()[random() % alphabet().size()];
    std::vector<const test::Symbol*> text(1 + random() % 40);
    for (auto& symbol : text) symbol = choice[random() % n_symbols];
    ASSERT_TRUE(agrees(text));
  }
}

}  // namespace
}  // namespace kda
