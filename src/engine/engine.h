// Engine (an immutable model, ready to run) and Sequence (one timeline of tokens). What the command line, the server
// and bindings use; nothing here names a tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

class Checkpoint;
class ChatFormat;
class Tokenizer;
struct ModelConfig;
class TensorSink;

/// Most tokens of a pass: keeps every index of it far inside 32 bits.
inline constexpr int64_t kMaxBatchTokens = 16384;

/// Most guesses: with the token before them they stay few enough to take the same path through every kernel as one.
inline constexpr int64_t kMaxGuesses = 15;

struct EngineOptions {
  int threads = 0;         // 0: one for each core this process may use
  int threads_prompt = 0;  // for batches of more than kMaxGuesses + 1 tokens; 0: as threads
  std::string isa = {};    // "", "auto", "scalar", "avx2", "avx512"
  // Most tokens that go through the layers together. Each expert of a large model sees few tokens of a batch, so that
  // longer batches make long prompts faster; 1,024 tokens of the 48B model take 0.2 GB.
  int64_t batch_tokens = 1024;
  bool exact_activations = false;  // fp32 activations for quantised weights too
  // Batches of at least so many tokens expand the keys and values of MLA; 0: where that saves work. The forms differ in
  // the last bits: for the same bits however a prompt is cut, ask for one form with 1 or kNever.
  int64_t expand_mla_from = 0;
  static constexpr int64_t kNever = INT64_MAX;
  int64_t max_guesses = 0;  // most tokens that feed_guessing() takes along
};

/// Bytes, exact: what the allocator asks for.
struct MemoryPlan {
  int64_t context = 0;         // tokens
  int64_t weights_mapped = 0;  // in the file mapping, evictable
  int64_t weights_owned = 0;
  int64_t kda_state = 0;     // recurrent state, convolution tails and rows that may be taken back, one sequence
  int64_t latent_cache = 0;  // one sequence at `context` tokens
  int64_t scratch = 0;       // does not grow with the context
  [[nodiscard]] int64_t total_anonymous() const noexcept { return weights_owned + kda_state + latent_cache + scratch; }
};

/// Called between the layers of each batch of a prompt: tokens done (a layer counts as its share of the batch) and to
/// do. Return false to stop: feed throws Error(kInterrupted), and the batches that were complete stay.
using FeedProgress = std::function<bool(int64_t done, int64_t total)>;

class Sequence;

class Engine {
 public:
  /// location_text: what the user typed, see formats/hub.h. Throws Error.
  static std::unique_ptr<Engine> open(const std::string& model, const EngineOptions& options,
                                      std::string (*getenv_like)(const char*));
  ~Engine();

  [[nodiscard]] const ModelConfig& config() const noexcept;
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept;
  /// Throws Error(kNotFound) when the model came without a vocabulary.
  [[nodiscard]] const Tokenizer& tokenizer() const;
  [[nodiscard]] bool has_tokenizer() const noexcept;
  /// nullptr when the model has no chat format.
  [[nodiscard]] const ChatFormat* chat_format() const noexcept;
  /// Threads that a batch of n_tokens runs on.
  [[nodiscard]] int n_threads(int64_t n_tokens = 1) const noexcept;
  [[nodiscard]] std::string_view isa() const noexcept;
  [[nodiscard]] MemoryPlan memory_plan(int64_t context) const;
  /// What to use when the user names none: the model's length, at most 8,192, and what fits in memory.
  [[nodiscard]] int64_t default_context() const;
  [[nodiscard]] std::span<const std::string> warnings() const noexcept;

  /// Throws Error(kLimit) with the numbers when the plan does not fit in the memory that is available.
  /// The engine outlives its sequences. One sequence is run at a time.
  [[nodiscard]] std::unique_ptr<Sequence> new_sequence(int64_t context) const;

  /// A sequence that is only fed by Batch: it has no memory for passes of its own and keeps no snapshots, so that
  /// feed*() and sync() throw Error(kUsage). Throws what new_sequence() throws.
  [[nodiscard]] std::unique_ptr<Sequence> new_batch_sequence(int64_t context) const;
  [[nodiscard]] MemoryPlan batch_memory_plan(int64_t context) const;

 private:
  friend class Batch;
  friend class Scheduler;
  friend class Sequence;
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// State of a sequence at one position: KDA states, convolution tails, the number of latent rows, last logits.
class Snapshot;

/// One timeline. Not thread-safe. After an exception the sequence holds what it held before the failed batch.
class Sequence {
 public:
  ~Sequence();

  /// Appends ids. Throws Error(kLimit) before any work when they do not fit the context, Error(kUsage) for an id out of
  /// range, Error(kInterrupted) when progress returns false (what was computed stays), Error(kFormat) when the model
  /// yields NaN.
  void feed(std::span<const int32_t> ids, const FeedProgress& progress = {});

  /// feed of one token that takes guesses of the tokens behind it along: all of them go through the model together, and
  /// each that turns out right needs no pass of its own. Guesses beyond EngineOptions::max_guesses, the batch or the
  /// context are left out. logits() are those after id, the same bits as after feed. Throws what feed throws.
  void feed_guessing(int32_t id, std::span<const int32_t> guesses);

  /// True when id is the next of the guesses taken along: then it is part of the timeline, and logits() are those after
  /// it. False changes nothing. The guesses that are left are forgotten by any other call that is not const.
  bool feed_guessed(int32_t id) noexcept;

  /// As feed, and calls each(position, logits [vocab]) for every one of ids in order, but for the first `n_without`.
  /// sink may be nullptr; otherwise it receives every intermediate and what products read.
  void feed_all_logits(std::span<const int32_t> ids, const std::function<void(int64_t, std::span<const float>)>& each,
                       TensorSink* sink = nullptr, const FeedProgress& progress = {}, int64_t n_without = 0);

  /// Makes the timeline exactly ids: keeps the longest common prefix that a snapshot (or the present state) allows and
  /// feeds the rest. `borders`: positions in ids after which a snapshot is kept. Returns the number of tokens reused.
  int64_t sync(std::span<const int32_t> ids, std::span<const int64_t> borders, const FeedProgress& progress = {});

  /// Keeps a snapshot of the present position, so that a later sync can come back to it.
  void keep_snapshot();

  /// Logits after the last token [vocab]. At least one token must have been fed.
  [[nodiscard]] std::span<const float> logits() const noexcept;
  [[nodiscard]] std::span<const int32_t> tokens() const noexcept;
  [[nodiscard]] int64_t size() const noexcept;
  [[nodiscard]] int64_t context() const noexcept;
  [[nodiscard]] MemoryPlan memory_plan() const noexcept;
  /// Most guesses that feed_guessing() takes along.
  [[nodiscard]] int64_t max_guesses() const noexcept;
  void clear();

 private:
  friend class Batch;
  friend class Engine;
  friend class Scheduler;
  Sequence();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
