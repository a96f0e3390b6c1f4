#include "measure/text_chunks.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/expect_error.h"
#include "support/shared_data.h"

namespace kda {
namespace {

/// All single bytes, then control tokens 256 ("[BOS]") and 257.
Tokenizer byte_tokenizer(bool add_bos) {
  Vocabulary v;
  for (int i = 0; i < 256; ++i) v.bytes.emplace_back(1, static_cast<char>(i));
  v.kinds.assign(256, TokenKind::kText);
  v.bytes.insert(v.bytes.end(), {"[BOS]", "<|x|>"});
  v.kinds.resize(258, TokenKind::kControl);
  v.bos = 256;
  v.add_bos = add_bos;
  return Tokenizer(std::move(v));
}

std::vector<int32_t> copy(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

TEST(TextChunks, WholeChunksAreTakenAndTheRestIsDropped) {
  const TextChunks chunks = chunk_text(byte_tokenizer(false), "abcdefghijklmnopqrstuvwxyz", false, 8, 0);
  EXPECT_EQ(chunks.n_chunks, 3);
  EXPECT_EQ(chunks.n_text_tokens, 26);
  EXPECT_EQ(copy(chunks.chunk(2)), (std::vector<int32_t>{'q', 'r', 's', 't', 'u', 'v', 'w', 'x'}));
  EXPECT_EQ(chunks.first_scored(), 4);
  EXPECT_EQ(chunks.scored_per_chunk(), 3);
  EXPECT_EQ(chunks.n_scored(), 9);
  EXPECT_EQ(chunk_text(byte_tokenizer(false), "abcdefghijklmnopqrstuvwxyz", false, 8, 2).ids.size(), 16U);
}

TEST(TextChunks, ABeginningTokenLeadsEveryChunkWhereTheVocabularyAsksForIt) {
  const TextChunks chunks = chunk_text(byte_tokenizer(true), "abcdefghijklmno", false, 8, 0);
  EXPECT_EQ(chunks.n_text_tokens, 16);
  EXPECT_EQ(copy(chunks.chunk(0)), (std::vector<int32_t>{256, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(copy(chunks.chunk(1)), (std::vector<int32_t>{256, 'i', 'j', 'k', 'l', 'm', 'n', 'o'})) << "'h' gave way";
}

TEST(TextChunks, ControlTokensComeOnlyOnRequest) {
  EXPECT_EQ(chunk_text(byte_tokenizer(false), "<|x|>abcdefgh", true, 8, 0).ids[0], 257);
  EXPECT_EQ(chunk_text(byte_tokenizer(false), "<|x|>abcdefgh", false, 8, 0).ids[0], '<');
}

TEST(TextChunks, ATextThatFillsNoChunkIsRefused) {
  test::expect_error(ErrorCode::kUsage, "the text has 7 tokens, expected at least 8",
                     [] { (void)chunk_text(byte_tokenizer(false), "abcdefg", false, 8, 0); });
  test::expect_error(ErrorCode::kUsage, "chunks of 7 tokens",
                     [] { (void)chunk_text(byte_tokenizer(false), "abcdefgh", false, 7, 0); });
}

TEST(TextChunks, WikitextWithThePublishedVocabularyHas568) {
  KDA_SHARED_OR_SKIP(shared);
  const auto path = shared / "data" / "text" / "wikitext-2-raw.wiki.test.raw";
  std::ifstream file(path, std::ios::binary);
  if (!file) GTEST_SKIP() << "no " << path;
  std::stringstream text;
  text << file.rdbuf();
  const Tokenizer tokenizer(read_folder_vocabulary((shared / "data" / "tokenizer").string(), 163840));
  const TextChunks chunks = chunk_text(tokenizer, text.str(), false, 512, 0);
  EXPECT_EQ(chunks.n_chunks, 568);
  EXPECT_NE(chunks.ids[0], 163584) << "no [BOS]";
}

}  // namespace
}  // namespace kda
