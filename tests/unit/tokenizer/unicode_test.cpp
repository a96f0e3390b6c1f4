// The Unicode tables, and the splitter on text of all of Unicode, against PCRE2 where that is installed.
#include <gtest/gtest.h>

#include <array>

#include "tokenizer/splitter.h"
#include "tokenizer/unicode_tables.h"

#ifdef KDA_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <random>
#include <string>
#include <vector>
#endif

namespace kda {
namespace {

using unicode::class_of;
using unicode::CodePointClass;

TEST(UnicodeTables, KnowCharactersOfEveryClass) {
  const std::pair<uint32_t, CodePointClass> examples[] = {
      {'A', CodePointClass::kUpper},        {0x01C5, CodePointClass::kUpper},  // a title-case letter
      {'z', CodePointClass::kLower},        {0x00DF, CodePointClass::kLower},
      {0x02B0, CodePointClass::kLetter},    {0xAC00, CodePointClass::kLetter},
      {0x0301, CodePointClass::kMark},      {0xE0100, CodePointClass::kMark},
      {'7', CodePointClass::kNumber},       {0x2167, CodePointClass::kNumber},
      {0x0085, CodePointClass::kSpace},     {0x3000, CodePointClass::kSpace},
      {'\n', CodePointClass::kNewline},     {'\r', CodePointClass::kNewline},
      {0x4E00, CodePointClass::kHanLetter}, {0x3005, CodePointClass::kHanLetter},
      {0x3007, CodePointClass::kHanNumber}, {0x2E80, CodePointClass::kHanOther},
      {0x16FF0, CodePointClass::kHanOther}, {0x1F600, CodePointClass::kOther},
      {0xD800, CodePointClass::kOther},     {0x10FFFF, CodePointClass::kOther},
      {0x1C89, CodePointClass::kUpper},  // new in Unicode 16
      {0x088F, CodePointClass::kOther},  // new in Unicode 17
  };
  for (const auto& [code_point, cls] : examples) EXPECT_EQ(class_of(code_point), cls) << std::hex << code_point;
}

// Counts in DerivedGeneralCategory.txt, Scripts.txt and PropList.txt of Unicode 16.0.0.
TEST(UnicodeTables, HaveAsManyCharactersOfEachKindAsUnicode16) {
  std::array<int, 16> counts{};
  for (uint32_t c = 0; c < unicode::kNCodePoints; ++c) ++counts[static_cast<size_t>(class_of(c))];
  const auto count = [&](auto... classes) { return (counts[static_cast<size_t>(classes)] + ...); };
  EXPECT_EQ(count(CodePointClass::kUpper), 1858 + 31);
  EXPECT_EQ(count(CodePointClass::kLower), 2258);
  EXPECT_EQ(count(CodePointClass::kLetter, CodePointClass::kHanLetter), 404 + 136477);
  EXPECT_EQ(count(CodePointClass::kNumber, CodePointClass::kHanNumber), 1911);
  EXPECT_EQ(count(CodePointClass::kSpace, CodePointClass::kNewline), 25);
  EXPECT_EQ(count(CodePointClass::kHanLetter, CodePointClass::kHanNumber, CodePointClass::kHanOther), 99030);
  // All marks but the two that are Han.
  EXPECT_EQ(count(CodePointClass::kMark), 2501 - 2);
}

#ifdef KDA_HAVE_PCRE2

std::string to_utf8(uint32_t c) {
  std::string bytes;
  if (c < 0x80) {
    bytes += static_cast<char>(c);
  } else if (c < 0x800) {
    bytes += static_cast<char>(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    bytes += static_cast<char>(0xE0 | c >> 12);
    bytes += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  } else {
    bytes += static_cast<char>(0xF0 | c >> 18);
    bytes += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    bytes += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  if (c >= 0x80) bytes += static_cast<char>(0x80 | (c & 0x3F));
  return bytes;
}

class Pcre2 {
 public:
  explicit Pcre2(const std::string& pattern) {
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &offset, nullptr));
    EXPECT_NE(code_, nullptr) << "error " << error << " at " << offset << " of " << pattern;
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  /// End of the match that begins at `begin`; 0: none.
  size_t match(std::string_view text, size_t begin) const {
    const int n = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                              PCRE2_ANCHORED, match_.get(), nullptr);
    return n > 0 ? pcre2_get_ovector_pointer(match_.get())[1] : 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

// PCRE2 10.42 has no intersection of classes, so Han is excluded by looking ahead; its \p{Han} means script extensions
// and its \s is not White_Space, so both are spelled out.
constexpr std::string_view kHan = R"(\p{sc:Han})";
constexpr std::string_view kWhite =
    R"(\x{09}-\x{0D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::string kimi_pattern() {
  const std::string han(kHan);
  const std::string white(kWhite);
  const std::string upper = "(?:(?!" + han + R"()[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))";
  const std::string lower = "(?:(?!" + han + R"()[\p{Ll}\p{Lm}\p{Lo}\p{M}]))";
  const std::string contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  return han + R"(+|[^\r\n\p{L}\p{N}]?)" + upper + "*" + lower + "+" + contraction + R"(|[^\r\n\p{L}\p{N}]?)" + upper +
         "+" + lower + "*" + contraction + R"(|\p{N}{1,3}| ?[^)" + white + R"(\p{L}\p{N}]+[\r\n]*|[)" + white +
         R"(]*[\r\n]+|[)" + white + "]+(?![^" + white + "])|[" + white + "]+";
}

/// What PCRE2 knows: 10.42 is at Unicode 14. None of these characters has changed its class since.
std::vector<uint32_t> known_code_points() {
  const Pcre2 unassigned(R"(\p{Cn})");
  std::vector<uint32_t> known;
  for (uint32_t c = 0; c < unicode::kNCodePoints; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    if (unassigned.match(to_utf8(c), 0) == 0) known.push_back(c);
  }
  return known;
}

TEST(UnicodeTables, AgreeWithPcre2OnEveryCharacterThatItKnows) {
  const std::pair<const char*, std::vector<CodePointClass>> properties[] = {
      {R"([\p{Lu}\p{Lt}])", {CodePointClass::kUpper}},
      {R"(\p{Ll})", {CodePointClass::kLower}},
      {R"([\p{Lm}\p{Lo}])", {CodePointClass::kLetter, CodePointClass::kHanLetter}},
      {R"((?!\p{sc:Han})\p{M})", {CodePointClass::kMark}},
      {R"(\p{N})", {CodePointClass::kNumber, CodePointClass::kHanNumber}},
      {R"(\p{sc:Han})", {CodePointClass::kHanLetter, CodePointClass::kHanNumber, CodePointClass::kHanOther}},
  };
  const auto known = known_code_points();
  EXPECT_GT(known.size(), 140000U);
  for (const auto& [pattern, classes] : properties) {
    const Pcre2 property(pattern);
    for (const uint32_t c : known) {
      const bool expected = property.match(to_utf8(c), 0) != 0;
      const bool found = std::find(classes.begin(), classes.end(), class_of(c)) != classes.end();
      EXPECT_EQ(found, expected) << pattern << std::hex << " U+" << c;
    }
  }
}

TEST(Splitter, AgreesWithPcre2OnRandomUnicode) {
  const Pcre2 pattern(kimi_pattern());
  const auto known = known_code_points();
  std::mt19937 random(6);
  for (int i = 0; i < 20000; ++i) {
    // A few characters from near each other, ASCII, and what the pattern mentions.
    const size_t n_choices = 2 + random() % 10;
    const size_t place = random() % known.size();
    std::vector<uint32_t> choice(n_choices);
    for (uint32_t& c : choice) {
      switch (random() % 4) {
        case 0:
          c = known[random() % known.size()];
          break;
        case 1:
          c = known[(place + random() % 64) % known.size()];
          break;
        case 2:
          c = random() % 128;
          break;
        default:
          c = std::array{0x27, 0x53, 0x6C, 0x0D, 0x0A, 0x20, 0x3007, 0x2E80, 0x0301, 0x17F, 0x85}[random() % 11];
      }
    }
    std::string text;
    for (size_t n = 1 + random() % 60; n > 0; --n) text += to_utf8(choice[random() % n_choices]);
    for (size_t begin = 0; begin < text.size();) {
      const size_t expected = pattern.match(text, begin);
      ASSERT_EQ(piece_end(text, begin), expected) << ::testing::PrintToString(text) << " at " << begin;
      begin = expected;
    }
  }
}

#endif

}  // namespace
}  // namespace kda
