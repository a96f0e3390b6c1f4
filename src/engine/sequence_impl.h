// What Engine and Sequence are made of; shared by engine.cpp and sequence.cpp only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "chat/chat_format.h"
#include "engine/engine.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "ops/cpu_ops.h"
#include "state/sequence_state.h"
#include "state/snapshots.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

namespace kda {

/// All memory that a forward pass works in, laid out in an arena: the same code measures and allocates.
struct RunMemory {
  /// For passes of up to max_tokens tokens, of which n_logits have logits.
  RunMemory(ThreadPool& pool, const KernelTable& kernels, bool exact, const ModelConfig& config, int64_t max_tokens,
            int64_t n_logits, Arena& arena);

  CpuOps ops;
  Workspace workspace;
  MatView fresh_logits;  // [n_logits, vocab], before they are known to be numbers
};

struct Engine::Impl {
  Impl(std::unique_ptr<Checkpoint> checkpoint, const EngineOptions& options);
  /// A model without a vocabulary, or with one that cannot be used, still runs on token ids.
  void open_tokenizer();
  void open_chat_format();

  [[nodiscard]] const ModelConfig& config() const noexcept { return checkpoint->config(); }
  [[nodiscard]] RunMemory lay_out(int64_t max_tokens, int64_t n_logits, Arena& arena) const {
    return RunMemory(pool, kernels, options.exact_activations, config(), max_tokens, n_logits, arena);
  }
  /// For a sequence of its own.
  [[nodiscard]] RunMemory lay_out(int64_t context, Arena& arena) const {
    const int64_t max_tokens = std::min(options.batch_tokens, context);
    return lay_out(max_tokens, std::min(max_tokens, 1 + options.max_guesses), arena);
  }

  /// Few tokens wait for the memory, many for the processor.
  [[nodiscard]] int n_threads(int64_t n_tokens) const noexcept {
    return n_tokens > kMaxGuesses + 1 ? options.threads_prompt : options.threads;
  }

  [[nodiscard]] int64_t max_tentative() const noexcept {
    return options.max_guesses == 0 ? 0 : options.max_guesses + 1;
  }

  EngineOptions options;  // with the numbers of threads that were left open
  std::unique_ptr<Checkpoint> checkpoint;
  const KernelTable& kernels;
  mutable ThreadPool pool;  // one sequence is run at a time
  Model model;
  std::optional<Tokenizer> tokenizer;
  std::string no_tokenizer;  // why there is none
  std::unique_ptr<ChatFormat> chat_format;
  std::vector<std::string> warnings;
};

/// Says that a pass of n tokens from `first` on did not yield numbers.
[[nodiscard]] std::string not_finite_text(int64_t first, int64_t n);

struct Sequence::Impl {
  /// own_passes: with memory for them.
  Impl(const Engine::Impl& engine, int64_t context, const MemoryPlan& plan, bool own_passes);
  /// Throws Error(kUsage) when there is no memory for passes.
  void check_passes() const;

  /// Throws Error(kUsage | kLimit) when ids are out of range, or would not fit behind `size` tokens.
  void check(std::span<const int32_t> ids, int64_t size) const;

  using EachLogits = std::function<void(int64_t, std::span<const float>)>;
  /// Sends ids through the model in batches that end at `cuts` (increasing, absolute positions), where snapshots are
  /// kept.
  void run(std::span<const int32_t> ids, std::span<const int64_t> cuts, const FeedProgress& progress);
  using EachLayer = std::function<void(int64_t)>;
  /// One batch. want_logits: those of the last token are kept. each, if any, gets the logits of all tokens from the
  /// n_without-th on. each_layer, if any, hears the number of layers done and may throw. After an exception the tokens
  /// are the ones before.
  void run_batch(std::span<const int32_t> ids, bool want_logits, const EachLogits& each, int64_t n_without,
                 TensorSink* sink, const EachLayer& each_layer);
  /// One batch of which the first token counts; the logits of all stay in fresh_logits.
  void run_tentative(std::span<const int32_t> ids);
  /// Throws Error(kFormat) unless fresh and the residual stream of a batch of n tokens from `first` on are numbers.
  void check_finite(const MatView& fresh, int64_t first, int64_t n);
  /// Makes fresh [1, vocab] the logits after the last token.
  void set_logits(const MatView& fresh) noexcept;
  [[nodiscard]] std::span<const float> logits_span() const noexcept {
    return {logits.data, static_cast<size_t>(logits.cols)};
  }
  /// Rebuilds the recurrent state when a failed batch left it undefined.
  void recover();
  void restore(const Snapshot* snapshot);
  void keep_snapshot();

  const Engine::Impl& engine;
  MemoryPlan plan;
  AlignedBuffer memory;
  Arena arena;
  std::unique_ptr<RunMemory> run_memory;  // nullptr: only Batch feeds it
  MatView logits;                         // [1, vocab]
  SequenceState state;
  SnapshotStore snapshots;
  int64_t logits_position = 0;       // number of tokens that the logits belong to; 0: to none
  bool recurrent_undefined = false;  // a batch failed half way
  int64_t guess_row = 0;             // row of fresh_logits that belongs to the latest token of a tentative batch
};

}  // namespace kda
