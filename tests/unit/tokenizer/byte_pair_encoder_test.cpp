#include "tokenizer/byte_pair_encoder.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "base/error.h"
#include "small_vocabulary.h"

namespace kda {
namespace {

std::vector<int32_t> encode(const BytePairEncoder& encoder, std::string_view piece) {
  BytePairEncoder::Scratch scratch;
  std::vector<int32_t> ids;
  encoder.encode_piece(piece, scratch, ids);
  return ids;
}

TEST(BytePairEncoder, AgreesWithTheStatedRuleOnRandomPieces) {
  const auto tokens = test::small_tokens();
  const auto ranks = test::ranks_of(tokens);
  const BytePairEncoder encoder(tokens);
  std::mt19937 random(2);
  const std::string_view letters = "aaabcdxyzthenion _|<>!12HTP";
  for (int i = 0; i < 20000; ++i) {
    std::string piece;
    const size_t n = 1 + random() % 60;
    const size_t n_letters = 1 + random() % letters.size();
    for (size_t k = 0; k < n; ++k) piece += letters[random() % n_letters];
    ASSERT_EQ(encode(encoder, piece), test::merge_slowly(ranks, piece)) << piece;
  }
}

// Random tokens make merges whose rank is lower than that of the merge before, which trained ones do not.
TEST(BytePairEncoder, AgreesWithTheStatedRuleOnRandomVocabularies) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    auto ranks = test::ranks_of(tokens);
    for (int k = 0; k < 60; ++k) {
      std::string token;
      for (size_t n = 2 + random() % 4; n > 0; --n) token += static_cast<char>('a' + random() % 3);
      if (ranks.emplace(token, static_cast<int32_t>(tokens.size())).second) tokens.push_back(token);
    }
    const BytePairEncoder encoder(tokens);
    for (int k = 0; k < 50; ++k) {
      std::string piece;
      for (size_t n = 1 + random() % 50; n > 0; --n) piece += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(encode(encoder, piece), test::merge_slowly(ranks, piece)) << piece;
    }
  }
}

TEST(BytePairEncoder, FindsEveryTokenAndNoOther) {
  // Lengths around those at which keys change from bytes to a hash.
  auto tokens = test::small_tokens();
  for (size_t n = 2; n < 40; ++n) {
    for (const char c : {'p', 'q'}) tokens.push_back(std::string(n, c) + "r");
  }
  const BytePairEncoder encoder(tokens);
  for (size_t id = 0; id < tokens.size(); ++id) {
    EXPECT_EQ(encoder.find(tokens[id]), static_cast<int32_t>(id));
    EXPECT_EQ(encoder.find(tokens[id] + "\x01"), std::nullopt);
  }
  EXPECT_EQ(encoder.find(""), std::nullopt);
  EXPECT_EQ(encoder.find("pqr"), std::nullopt);
}

TEST(BytePairEncoder, RejectsBadVocabularies) {
  const auto message = [](const std::vector<std::string>& tokens) -> std::string {
    try {
      const BytePairEncoder encoder(tokens);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat);
      return error.what();
    }
    return "accepted";
  };
  auto tokens = test::small_tokens();
  EXPECT_EQ(message(tokens), "accepted");
  tokens.emplace_back("the");
  EXPECT_EQ(message(tokens), "vocabulary: token 304 has the same bytes as token 263");
  tokens.back() = "";
  EXPECT_EQ(message(tokens), "vocabulary: token 304 has 0 bytes, expected 1 to 1024");
  tokens.back() = std::string(1025, 'x');
  EXPECT_EQ(message(tokens), "vocabulary: token 304 has 1025 bytes, expected 1 to 1024");
  tokens = test::small_tokens();
  tokens[0x10] = "long enough";
  EXPECT_EQ(message(tokens), "vocabulary: there is no token for the single byte 0xEF, expected all 256");
}

// Tokens of 16 bytes with one hash, by undoing the last step of the hash for each first half.
TEST(BytePairEncoder, RejectsAVocabularyMadeToCollide) {
  auto tokens = test::small_tokens();
  for (uint64_t first = 1; first <= 2000; ++first) {
    const uint64_t last = std::rotl((16 ^ first) * 0x9E3779B97F4A7C15, 29) ^ 12345;
    std::string token(16, '\0');
    std::memcpy(token.data(), &first, 8);
    std::memcpy(token.data() + 8, &last, 8);
    tokens.push_back(token);
  }
  try {
    const BytePairEncoder encoder(tokens);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find("collides with more than 500 others"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace kda
