#include "chat/text_stream.h"

#include <gtest/gtest.h>

#include <random>

namespace kda {
namespace {

using namespace std::string_literals;

struct Shown {
  std::string text;
  bool stopped = false;
  bool operator==(const Shown&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  return out << '"' << shown.text << "\" stopped " << shown.stopped;
}

Shown run(const std::vector<std::string>& pieces, const std::vector<std::string>& stop = {}) {
  TextStream stream(stop);
  Shown shown;
  for (const std::string& piece : pieces) shown.text += stream.push(piece);
  shown.text += stream.finish();
  shown.stopped = stream.stopped();
  return shown;
}

/// The text must be the same in one piece, cut in two anywhere, and byte by byte.
void expect_text(const std::string& bytes, const std::vector<std::string>& stop, const Shown& expected) {
  EXPECT_EQ(run({bytes}, stop), expected);
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    ASSERT_EQ(run({bytes.substr(0, cut), bytes.substr(cut)}, stop), expected) << "cut at " << cut;
  std::vector<std::string> single;
  for (const char byte : bytes) single.emplace_back(1, byte);
  EXPECT_EQ(run(single, stop), expected);
}

TEST(TextStream, ShowsWholeCharactersOnly) {
  TextStream stream;
  EXPECT_EQ(stream.push("a\xE5"), "a");
  EXPECT_EQ(stream.push("\x8C"), "");
  EXPECT_EQ(stream.push("\x97 \xF0\x9F"), "\xE5\x8C\x97 ");
  EXPECT_EQ(stream.push("\x98\x80"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, KeepsValidTextAsItIs) {
  const std::string text = "Aß北京😀\x7F\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\0z"s;
  expect_text(text, {}, {text, false});
}

TEST(TextStream, ReplacesMaximalSubparts) {
  // The rows of Unicode 15, section 3.9, tables 3-8 to 3-11; R is U+FFFD.
  const std::string r = "\xEF\xBF\xBD";
  expect_text("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", {}, {r + r + r + r + r + r + r + r + "A", false});
  expect_text("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", {}, {r + r + r + r + r + r + r + r + "A", false});
  expect_text("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {}, {r + r + r + r + r + "A" + r + r + "B", false});
  expect_text("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {}, {r + r + r + r + "A", false});
}

TEST(TextStream, ReplacesACharacterThatTheEndCutsOff) {
  expect_text("a\xF0\x9F\x98", {}, {"a\xEF\xBF\xBD", false});
  expect_text("\xE5", {}, {"\xEF\xBF\xBD", false});
}

TEST(TextStream, HoldsBackTheBeginningOfAStopString) {
  TextStream stream({"<end>"});
  EXPECT_EQ(stream.push("ab<e"), "ab");
  EXPECT_EQ(stream.push("n"), "");
  EXPECT_EQ(stream.push("x"), "<enx");
  EXPECT_EQ(stream.push("<en"), "");
  EXPECT_EQ(stream.push("d>rest"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, GivesBackWhatWasHeldAtTheEnd) { expect_text("ab<en", {"<end>"}, {"ab<en", false}); }

TEST(TextStream, FindsStopStringsThatOverlapThemselves) {
  expect_text("aaab!", {"aab"}, {"a", true});
  expect_text("abababac", {"ababac"}, {"ab", true});
  expect_text("ababab", {"ababac"}, {"ababab", false});
}

TEST(TextStream, TheStopStringThatIsCompleteFirstEndsTheText) {
  expect_text("one two three", {"three", "two"}, {"one ", true});
  expect_text("xabcd", {"abcd", "bc"}, {"xa", true});
  expect_text("xabcd", {"c", "abc", "bc"}, {"x", true});  // they end together: the longest
}

TEST(TextStream, IgnoresEmptyStopStrings) { expect_text("text", {"", ""}, {"text", false}); }

TEST(TextStream, MatchesStopStringsOfSeveralByteCharacters) {
  expect_text("我说。你说。", {"。你"}, {"我说", true});
  expect_text("\xE5\x8C\x97", {"\x8C"}, {"\xE5\x8C\x97", false});  // not inside a character
}

TEST(TextStream, AgreesWithASearchInTheWholeTextForRandomInput) {
  std::mt19937 rng(3);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](int max) {
      std::string s;
      for (int n = static_cast<int>(rng() % static_cast<unsigned>(max)); n > 0; --n)
        s += static_cast<char>('a' + rng() % 2);
      return s;
    };
    const std::string text = word(24);
    const std::vector<std::string> stop{word(6), word(6), word(6)};
    size_t best_end = std::string::npos, best_size = 0;
    for (const std::string& s : stop) {
      const size_t at = s.empty() ? std::string::npos : text.find(s);
      if (at == std::string::npos) continue;
      if (at + s.size() < best_end || (at + s.size() == best_end && s.size() > best_size)) {
        best_end = at + s.size();
        best_size = s.size();
      }
    }
    const bool stopped = best_end != std::string::npos;
    const Shown expected{stopped ? text.substr(0, best_end - best_size) : text, stopped};
    const size_t cut = rng() % (text.size() + 1);
    ASSERT_EQ(run({text.substr(0, cut), text.substr(cut)}, stop), expected) << text << ' ' << stop[0] << ' ' << stop[1];
  }
}

}  // namespace
}  // namespace kda
