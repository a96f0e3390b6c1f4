#include "measure/text_chunks.h"

#include "base/error.h"

namespace kda {

TextChunks chunk_text(const Tokenizer& tokenizer, std::string_view text, bool special, int64_t n_ctx,
                      int64_t max_chunks) {
  if (n_ctx < kMinChunkTokens) {
    fail(ErrorCode::kUsage, "chunks of {} tokens asked for, expected at least {}", n_ctx, kMinChunkTokens);
  }
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  const bool add_bos = vocabulary.add_bos && vocabulary.bos;
  TextChunks out;
  if (add_bos) out.ids.push_back(*vocabulary.bos);
  tokenizer.encode_append(text, special, out.ids);
  out.n_ctx = n_ctx;
  out.n_text_tokens = static_cast<int64_t>(out.ids.size());
  out.n_chunks = out.n_text_tokens / n_ctx;
  if (out.n_chunks == 0) {
    fail(ErrorCode::kUsage, "the text has {} tokens, expected at least {} to fill one chunk", out.n_text_tokens, n_ctx);
  }
  if (max_chunks > 0 && max_chunks < out.n_chunks) out.n_chunks = max_chunks;
  out.ids.resize(static_cast<size_t>(out.n_chunks * n_ctx));
  for (int64_t i = 0; add_bos && i < out.n_chunks; ++i) out.ids[static_cast<size_t>(i * n_ctx)] = *vocabulary.bos;
  return out;
}

}  // namespace kda
