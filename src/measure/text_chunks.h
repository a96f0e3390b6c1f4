// A text as chunks of token ids, cut as llama.cpp cuts it for perplexity and importance matrices.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kda {

/// Least tokens a chunk: some of them are scored, so that errors can be estimated.
inline constexpr int64_t kMinChunkTokens = 8;

/// Each chunk is a prompt of its own. Only its second half is scored: tokens first_scored() + 1 to the end, each from
/// the logits after the token before it.
struct TextChunks {
  std::vector<int32_t> ids;  // [n_chunks * n_ctx]
  int64_t n_ctx = 0;
  int64_t n_chunks = 0;
  int64_t n_text_tokens = 0;  // in the whole text, the rest that fills no chunk too

  [[nodiscard]] int64_t first_scored() const noexcept { return n_ctx / 2; }
  [[nodiscard]] int64_t scored_per_chunk() const noexcept { return n_ctx - 1 - first_scored(); }
  [[nodiscard]] int64_t n_scored() const noexcept { return n_chunks * scored_per_chunk(); }
  [[nodiscard]] std::span<const int32_t> chunk(int64_t i) const noexcept {
    return std::span(ids).subspan(static_cast<size_t>(i * n_ctx), static_cast<size_t>(n_ctx));
  }
};

/// The whole text becomes tokens, behind a beginning-of-text token where the vocabulary asks for one (add_bos), which
/// then also takes the place of each chunk's first token. special: names of control tokens stand for these tokens.
/// max_chunks 0: all. Throws Error(kUsage) when n_ctx is below kMinChunkTokens or the text does not fill one chunk.
[[nodiscard]] TextChunks chunk_text(const Tokenizer& tokenizer, std::string_view text, bool special, int64_t n_ctx,
                                    int64_t max_chunks);

}  // namespace kda
