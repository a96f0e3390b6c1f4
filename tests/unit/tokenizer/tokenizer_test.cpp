#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "small_vocabulary.h"

namespace kda {
namespace {

using Ids = std::vector<int32_t>;

const Tokenizer& small() {
  static const Tokenizer kTokenizer{test::small_vocabulary()};
  return kTokenizer;
}

/// Bytes of each token, so that expectations can be read.
std::vector<std::string> pieces(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> result;
  for (const int32_t id : ids) result.emplace_back(tokenizer.piece(id));
  return result;
}

using Pieces = std::vector<std::string>;

std::string error_of(Vocabulary vocabulary) {
  try {
    const Tokenizer tokenizer(std::move(vocabulary));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    return error.what();
  }
  return "accepted";
}

TEST(Tokenizer, MergesWithinPiecesOnly) {
  EXPECT_EQ(pieces(small(), small().encode("the the")), (Pieces{"the", " the"}));
  // "nt" + "he" are in one piece, "n" and " the" are not.
  EXPECT_EQ(pieces(small(), small().encode("in the")), (Pieces{"in", " the"}));
  EXPECT_EQ(small().encode(""), Ids{});
}

TEST(Tokenizer, TakesNamesOfControlTokensForTextUnlessAllowed) {
  const std::string text = "the<|im_end|>the[BOS]";
  EXPECT_EQ(pieces(small(), small().encode(text, true)), (Pieces{"the", "<|im_end|>", "the", "[BOS]"}));
  const Ids plain = small().encode(text);
  for (const int32_t id : plain) EXPECT_EQ(small().kind(id), TokenKind::kText);
  EXPECT_EQ(small().decode(plain), text);
}

TEST(Tokenizer, PrefersTheLeftmostThenTheLongestName) {
  EXPECT_EQ(pieces(small(), small().encode("<|im_end|>!", true)), (Pieces{"<|im_end|>!"}));
  EXPECT_EQ(pieces(small(), small().encode("<|im_end|>?", true)), (Pieces{"<|im_end|>", "?"}));
  EXPECT_EQ(pieces(small(), small().encode("[EOS[EOS]", true)), (Pieces{"[", "E", "O", "S", "[EOS]"}));
  EXPECT_EQ(pieces(small(), small().encode("<|<|im_user|>", true)), (Pieces{"<|", "<|im_user|>"}));
  EXPECT_EQ(pieces(small(), small().encode("[EO", true)), (Pieces{"[", "E", "O"}));
}

TEST(Tokenizer, NeverGivesAnIdThatIsNotTextForPlainText) {
  std::mt19937 random(4);
  std::vector<std::string> parts(std::begin(test::kSmallControls), std::end(test::kSmallControls));
  for (const char* part : {"<unused>", "<|", "|>", "im_end", "[", "]", "a", " ", "\n", "\xFF", "中"}) {
    parts.emplace_back(part);
  }
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += parts[random() % parts.size()];
    const Ids ids = small().encode(text);
    for (const int32_t id : ids) ASSERT_EQ(small().kind(id), TokenKind::kText);
    ASSERT_EQ(small().decode(ids), text);
    ASSERT_EQ(small().decode(small().encode(text, true), true), text);
    // The name of an unused token is text even where special tokens are allowed.
    for (const int32_t id : small().encode(text, true)) ASSERT_NE(small().kind(id), TokenKind::kUnused);
  }
}

TEST(Tokenizer, GivesBackAnyBytes) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 200, '\0');
    for (char& c : text) c = static_cast<char>(random());
    ASSERT_EQ(small().decode(small().encode(text)), text);
    ASSERT_EQ(small().decode(small().encode(text, true), true), text);
  }
}

TEST(Tokenizer, DecodesControlAndUnusedTokensOnlyWhenAsked) {
  const int32_t bos = *small().find_special("[BOS]");
  const int32_t unused = small().size() - 1;
  const Ids ids = {bos, small().encode("the").front(), unused};
  EXPECT_EQ(small().decode(ids), "the");
  EXPECT_EQ(small().decode(ids, true), "[BOS]the<unused>");
  EXPECT_EQ(small().piece(bos), "[BOS]");
  EXPECT_EQ(small().kind(unused), TokenKind::kUnused);
  EXPECT_EQ(small().find_special("<unused>"), std::nullopt);
  EXPECT_EQ(small().find_special("the"), std::nullopt);
}

TEST(Tokenizer, RejectsIdsOutOfRange) {
  for (const int32_t id : {-1, small().size(), INT32_MAX, INT32_MIN}) {
    EXPECT_THROW((void)small().piece(id), Error);
    EXPECT_THROW((void)small().kind(id), Error);
    EXPECT_THROW((void)small().decode(Ids{id}), Error);
    EXPECT_FALSE(small().is_end(id));
  }
}

TEST(Tokenizer, RejectsTextPastItsLimitBeforeReadingIt) {
  const char byte = 'a';
  try {
    (void)small().encode(std::string_view(&byte, Tokenizer::kMaxTextBytes + 1));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLimit);
  }
}

TEST(Tokenizer, EndsAtTheFamilysEndTokensAndThoseOfTheFile) {
  Vocabulary vocabulary = test::small_vocabulary();
  vocabulary.eos = *small().find_special("<|im_user|>");
  vocabulary.eot = *small().find_special("[EOS]");
  vocabulary.pad = *small().find_special("[BOS]");
  const Tokenizer tokenizer(vocabulary);
  const std::span<const int32_t> ends = tokenizer.end_ids();
  EXPECT_EQ(pieces(tokenizer, Ids(ends.begin(), ends.end())), (Pieces{"<|im_end|>", "[EOS]", "[EOT]", "<|im_user|>"}));
  EXPECT_TRUE(tokenizer.is_end(*tokenizer.find_special("[EOT]")));
  EXPECT_FALSE(tokenizer.is_end(*tokenizer.find_special("[BOS]")));
}

TEST(Tokenizer, IgnoresEndIdsThatAreText) {
  Vocabulary vocabulary = test::small_vocabulary();
  vocabulary.eos = 11;
  vocabulary.eot = 1 << 30;
  const Tokenizer tokenizer(vocabulary);
  EXPECT_FALSE(tokenizer.is_end(11));
  EXPECT_EQ(tokenizer.end_ids().size(), 3U);
}

TEST(Tokenizer, RejectsBadVocabularies) {
  Vocabulary vocabulary = test::small_vocabulary();
  vocabulary.kinds[20] = TokenKind::kControl;
  EXPECT_EQ(error_of(vocabulary),
            "vocabulary: token 21 is text but comes after token 20, which is not; text must come first");
  vocabulary = test::small_vocabulary();
  vocabulary.bytes.back() = "[BOS]";
  EXPECT_EQ(error_of(vocabulary), "accepted");
  vocabulary.kinds.back() = TokenKind::kControl;
  EXPECT_EQ(error_of(vocabulary), "vocabulary: control tokens 304 and 310 have the same name");
  vocabulary.bytes.back() = "";
  EXPECT_EQ(error_of(vocabulary), "vocabulary: the name of control token 310 has 0 bytes, expected 1 to 1024");
  vocabulary.bytes.pop_back();
  EXPECT_EQ(error_of(vocabulary), "vocabulary: 310 tokens and 311 kinds, expected as many, and less than 2^31");
  EXPECT_EQ(error_of(Vocabulary{}), "vocabulary: there is no token for the single byte 0x00, expected all 256");
}

// A quadratic step anywhere would take minutes here.
TEST(Tokenizer, TakesLinearTimeOnMegabytesOfOneKind) {
  for (const std::string_view unit :
       {" ",        "a",   "A",  "中",   "😀",         "\u0301", "\n", "1",   "\xFF", "\u05D0A", "\u0301A",
        "a\u0301A", " \n", "<|", "[EOS", "<|im_end|", "'",      "'s", "((a", "aA",   "\r\n \t", "\u2E80"}) {
    std::string text;
    while (text.size() < 1000000) text += unit;
    for (const bool allow_special : {false, true}) {
      ASSERT_EQ(small().decode(small().encode(text, allow_special), true), text) << unit;
    }
  }
}

TEST(Tokenizer, ServesThreadsAtTheSameTime) {
  const std::string text = "the <|im_end|>andabcdabcaaaaaaa the xyz ion\n\n";
  const Ids expected = small().encode(text, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) ASSERT_EQ(small().encode(text, true), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kda
