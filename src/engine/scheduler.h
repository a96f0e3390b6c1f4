// Many requests on one engine: which tokens go through the model together, and what is kept of a request for later
// ones.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "sampler/sampler.h"

namespace kda {

/// Most alternatives that a request may ask for beside each token.
inline constexpr int32_t kMaxTopLogprobs = 20;

/// A prompt to be continued.
struct GenerationRequest {
  std::vector<int32_t> prompt;   // at least one token
  std::vector<int64_t> borders;  // positions in prompt where a message ends, increasing: a later prompt may part there
  SamplerOptions sampling;
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logit of a token; -100 and less ban it
  int64_t max_tokens = -1;                            // -1: until the model ends or the context is full
  bool ignore_eos = false;                            // end tokens are never sampled
  int32_t top_logprobs = -1;                          // -1: no log-probabilities; else so many alternatives
  std::string client;                                 // requests of one client share its turn in the queue
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// Natural logarithm of the probability that the model gave (temperature 1, before penalties and biases).
struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

/// A token of an answer.
struct SampledToken {
  int32_t id = 0;
  float logprob = 0;                  // when asked for
  std::span<const TokenLogprob> top;  // the likeliest, falling; as many as asked for
};

enum class GenerationOutcome : uint8_t {
  kStop,       // an end token, or the listener said so
  kLength,     // max_tokens, or the context is full
  kCancelled,  // cancel(), or the scheduler is destroyed
  kTimeout,    // the deadline passed
  kError,      // see error
};

/// How a request went.
struct GenerationEnd {
  GenerationOutcome outcome = GenerationOutcome::kStop;
  std::string error;  // one sentence
  ErrorCode error_code = ErrorCode::kFormat;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, that needed no work
  std::vector<int32_t> ids;   // sampled, without the end token
  double queue_ms = 0;        // from submit() to the first work
  double prompt_ms = 0;       // from there to the first token
  double generation_ms = 0;   // from there to the end
};

/// Hears of one request. All calls come from the scheduler's thread, one at a time; they must be quick, as all requests
/// wait meanwhile, must not throw and must not call the scheduler but for cancel().
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  /// Tokens of the prompt that are done (the first call: those that needed no work) and the length of the prompt.
  virtual void on_prompt(int64_t done, int64_t total) noexcept;
  /// An end token is not told. False ends the answer after this token (kStop).
  [[nodiscard]] virtual bool on_token(const SampledToken& token) noexcept = 0;
  /// The last call.
  virtual void on_end(const GenerationEnd& end) noexcept = 0;
};

struct SchedulerOptions {
  int64_t parallel = 4;          // requests that run at the same time, each with its own context
  int64_t context = 0;           // tokens of each; 0: Engine::default_context
  int64_t max_batch_tokens = 0;  // most tokens of a pass; 0: 512
  int64_t max_queue = 64;        // requests that wait beside those that run
  int64_t cache_ram_bytes = -1;  // of the prefix cache; 0: none; -1: a share of the memory that is free
  std::string cache_disk = {};   // folder, made when it is not there; empty: none
  int64_t cache_disk_bytes = int64_t{16} << 30;
  double stall_seconds = 1.0;  // a pass that others wait for takes about so long at most
};

/// Cumulative since the start, but for running, waiting and the cache's present size.
struct SchedulerStats {
  int64_t running = 0, waiting = 0;
  int64_t requests = 0;            // accepted
  int64_t rejected = 0;            // queue full
  std::array<int64_t, 5> ended{};  // by GenerationOutcome
  int64_t prompt_tokens = 0;       // of requests that started
  int64_t cached_tokens = 0;       // ... that needed no work
  int64_t generated_tokens = 0;
  int64_t passes = 0;
  int64_t cache_ram_bytes = 0, cache_disk_bytes = 0, cache_entries = 0;
  double busy_seconds = 0;  // in passes
};

/// What one of the `parallel` places does now.
struct SlotStatus {
  uint64_t request = 0;  // 0: idle
  int64_t prompt_tokens = 0, prompt_done = 0, generated_tokens = 0;
  int64_t context_used = 0;
};

/// Runs requests on a thread of its own. Sequences join and leave at any pass; prompts and answers share passes; every
/// answer has the tokens that its request gets alone from the same cached prefix. All functions are thread-safe.
class Scheduler {
 public:
  /// The engine outlives the scheduler and runs nothing else meanwhile. Throws Error(kUsage | kLimit | kIo).
  Scheduler(const Engine& engine, const SchedulerOptions& options);
  /// Ends all requests (kCancelled), keeps what the cache on disk can have, and joins the thread.
  ~Scheduler();

  /// Queues a request; its number, never 0. Throws Error(kUsage) for bad options or ids, Error(kLimit) for a prompt
  /// that does not leave room for a token in the context, and Error(kBusy) when the queue is full or drain() was
  /// called.
  uint64_t submit(GenerationRequest request, std::shared_ptr<GenerationListener> listener);
  /// Ends a request within one pass; what it computed stays in the cache. Unknown numbers are ignored.
  void cancel(uint64_t request) noexcept;
  /// Refuses new requests. Those that were accepted go on.
  void drain() noexcept;

  [[nodiscard]] SchedulerStats stats() const;
  [[nodiscard]] std::vector<SlotStatus> slots() const;
  [[nodiscard]] const SchedulerOptions& options() const noexcept;  // with what was left open
  /// One place's share and all places, the passes and the cache together.
  [[nodiscard]] MemoryPlan memory_plan() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
