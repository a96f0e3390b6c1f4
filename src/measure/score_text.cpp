#include "measure/score_text.h"

#include <algorithm>
#include <vector>

#include "arch/model_config.h"
#include "base/error.h"

namespace kda {

namespace {

constexpr int64_t kMaxHeldBytes = int64_t{256} << 20;

/// Feeds tokens [begin, end) of a chunk to a sequence that holds those before; each gets the logits of those that are
/// scored.
void feed_part(Sequence& sequence, const TextChunks& chunks, int64_t chunk, int64_t begin, int64_t end,
               const std::function<void(int64_t, std::span<const float>)>& each, const FeedProgress& progress) {
  const auto ids = chunks.chunk(chunk).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  sequence.feed_all_logits(ids, each, nullptr, progress, std::max<int64_t>(0, chunks.first_scored() - begin));
}

/// progress of a part, as progress of the whole text.
FeedProgress from_part(const FeedProgress& progress, int64_t before, int64_t total) {
  if (!progress) return {};
  return [&progress, before, total](int64_t done, int64_t) { return progress(before + done, total); };
}

}  // namespace

void score_text(const Engine& engine, const TextChunks& chunks, const EachScored& each, const FeedProgress& progress) {
  const auto sequence = engine.new_sequence(chunks.n_ctx);
  const int64_t total = chunks.n_chunks * chunks.n_ctx;
  for (int64_t c = 0; c < chunks.n_chunks; ++c) {
    const auto ids = chunks.chunk(c);
    sequence->clear();
    feed_part(
        *sequence, chunks, c, 0, chunks.n_ctx - 1,
        [&](int64_t t, std::span<const float> logits) { each(score_row(logits), ids[static_cast<size_t>(t + 1)]); },
        from_part(progress, c * chunks.n_ctx, total));
  }
  if (progress) (void)progress(total, total);
}

void score_text(const Engine& base, const Engine& engine, const TextChunks& chunks, const EachCompared& each,
                const FeedProgress& progress) {
  const int64_t vocab = base.config().vocab_size;
  KDA_CHECK(engine.config().vocab_size == vocab);
  const auto base_sequence = base.new_sequence(chunks.n_ctx);
  const auto sequence = engine.new_sequence(chunks.n_ctx);
  const int64_t most = std::max<int64_t>(1, kMaxHeldBytes / (vocab * int64_t{sizeof(float)}));
  std::vector<float> held(static_cast<size_t>(std::min(most, chunks.scored_per_chunk()) * vocab));
  const int64_t total = 2 * chunks.n_chunks * chunks.n_ctx;
  for (int64_t c = 0; c < chunks.n_chunks; ++c) {
    const auto ids = chunks.chunk(c);
    base_sequence->clear();
    sequence->clear();
    for (int64_t begin = 0, end = 0; begin < chunks.n_ctx - 1; begin = end) {
      const int64_t scored = std::max(begin, chunks.first_scored());
      end = std::min(chunks.n_ctx - 1, scored + most);
      const auto place = [&](int64_t t) {
        return std::span(held).subspan(static_cast<size_t>((t - scored) * vocab), static_cast<size_t>(vocab));
      };
      const int64_t before = 2 * c * chunks.n_ctx + 2 * begin;
      feed_part(
          *base_sequence, chunks, c, begin, end,
          [&](int64_t t, std::span<const float> logits) { std::ranges::copy(logits, place(t).begin()); },
          from_part(progress, before, total));
      feed_part(
          *sequence, chunks, c, begin, end,
          [&](int64_t t, std::span<const float> logits) {
            each(score_row(place(t)), score_row(logits), ids[static_cast<size_t>(t + 1)]);
          },
          from_part(progress, before + end - begin, total));
    }
  }
  if (progress) (void)progress(total, total);
}

}  // namespace kda
