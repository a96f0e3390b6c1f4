#include "engine/batch.h"

#include "base/cpu_features.h"
#include "base/error.h"
#include "engine/sequence_impl.h"

namespace kda {

struct Batch::Impl {
  Impl(const Engine::Impl& owner, int64_t sequences, int64_t tokens)
      : engine(owner),
        max_sequences(sequences),
        max_tokens(tokens),
        memory(measure()),
        arena({memory.data(), memory.size_bytes()}),
        run_memory(owner.lay_out(tokens, sequences, arena)) {
    segments.reserve(static_cast<size_t>(sequences));
    last_rows.reserve(static_cast<size_t>(sequences));
  }

  [[nodiscard]] size_t measure() const {
    Arena sizes;
    (void)engine.lay_out(max_tokens, max_sequences, sizes);
    const auto needed = static_cast<int64_t>(sizes.peak_bytes());
    const int64_t available = available_memory_bytes();
    if (needed > available) {
      fail(ErrorCode::kLimit, "memory: passes of {} tokens need {} MiB, {} MiB are available", max_tokens, needed >> 20,
           available >> 20);
    }
    return static_cast<size_t>(needed);
  }

  void check(std::span<const Item> items) const;

  const Engine::Impl& engine;
  int64_t max_sequences;
  int64_t max_tokens;
  AlignedBuffer memory;
  Arena arena;
  RunMemory run_memory;
  std::vector<Segment> segments;
  std::vector<int64_t> last_rows;  // of each segment, in the pass
};

Batch::Batch(const Engine& engine, int64_t max_sequences, int64_t max_tokens) {
  if (max_sequences < 1 || max_sequences > max_tokens || max_tokens > kMaxBatchTokens) {
    fail(ErrorCode::kUsage, "batch: {} sequences and {} tokens asked for, expected 1 <= sequences <= tokens <= {}",
         max_sequences, max_tokens, kMaxBatchTokens);
  }
  impl_ = std::make_unique<Impl>(*engine.impl_, max_sequences, max_tokens);
}

Batch::~Batch() = default;

void Batch::Impl::check(std::span<const Item> items) const {
  if (static_cast<int64_t>(items.size()) > max_sequences) {
    fail(ErrorCode::kUsage, "batch: {} sequences, expected at most {}", items.size(), max_sequences);
  }
  int64_t n_tokens = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.sequence == nullptr || item.ids.empty() || &item.sequence->impl_->engine != &engine) {
      fail(ErrorCode::kUsage, "batch: item {}: expected a sequence of this engine and at least one token", i);
    }
    for (size_t j = 0; j < i; ++j) {
      if (items[j].sequence == item.sequence) fail(ErrorCode::kUsage, "batch: items {} and {} are one sequence", j, i);
    }
    const Sequence::Impl& sequence = *item.sequence->impl_;
    sequence.check(item.ids, item.sequence->size());
    if (!sequence.run_memory && sequence.recurrent_undefined) {
      fail(ErrorCode::kUsage, "batch: item {}: its last pass failed; expected a sequence that was cleared since", i);
    }
    n_tokens += static_cast<int64_t>(item.ids.size());
  }
  if (n_tokens > max_tokens) fail(ErrorCode::kUsage, "batch: {} tokens, expected at most {}", n_tokens, max_tokens);
}

void Batch::feed(std::span<Item> items) {
  Impl& impl = *impl_;
  impl.check(items);
  if (items.empty()) return;
  impl.engine.checkpoint->check_unchanged();
  for (const Item& item : items) item.sequence->impl_->recover();

  impl.segments.clear();
  impl.last_rows.clear();
  int64_t n_tokens = 0;
  for (Item& item : items) {
    item.error.clear();
    Sequence::Impl& sequence = *item.sequence->impl_;
    sequence.recurrent_undefined = true;  // until the pass is through
    impl.segments.push_back({.state = &sequence.state, .ids = item.ids, .mla_form = item.mla_form});
    n_tokens += static_cast<int64_t>(item.ids.size());
    impl.last_rows.push_back(n_tokens - 1);
  }
  RunMemory& run = impl.run_memory;
  const MatView fresh = run.fresh_logits.first_rows(static_cast<int64_t>(items.size()));
  impl.engine.pool.set_n_threads(impl.engine.n_threads(n_tokens));
  impl.engine.model.forward(run.ops, run.workspace, impl.segments, nullptr);
  impl.engine.model.logits(run.ops, run.workspace, impl.last_rows, fresh);

  int64_t begin = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    Sequence::Impl& sequence = *items[i].sequence->impl_;
    const auto n = static_cast<int64_t>(items[i].ids.size());
    const int64_t before = sequence.state.size() - n;
    const MatView logits = fresh.rows_from(static_cast<int64_t>(i), 1);
    if (run.ops.all_finite(run.workspace.x.rows_from(begin, n)) && run.ops.all_finite(logits)) {
      sequence.recurrent_undefined = false;
      sequence.set_logits(logits);
    } else {
      sequence.state.truncate(before);
      if (!sequence.run_memory) sequence.restore(nullptr);  // it has no pass of its own to come back with
      items[i].error = not_finite_text(before, n);
    }
    begin += n;
  }
}

}  // namespace kda
