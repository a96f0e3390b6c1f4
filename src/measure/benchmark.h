// Speed of prompts and of generation, on random tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "measure/read_bandwidth.h"
#include "measure/workload.h"

namespace kda {

struct BenchTest {
  enum class Kind : uint8_t {
    kPrompt,
    kGeneration,
    kEdit,         // a text of n_tokens is in the context; it is written again with every 24th token changed
    kDraftedEdit,  // the same with guesses, see NgramDrafter
  };
  Kind kind = Kind::kPrompt;
  int64_t n_tokens = 0;     // of each sequence
  int64_t depth = 0;        // tokens in the context before
  int64_t n_sequences = 1;  // of a generation: side by side

  /// "pp512", "tg32@d4096", "tg32x8", "ed256", "ed256-ngram"
  [[nodiscard]] std::string name() const;
  /// With guesses or without.
  [[nodiscard]] bool is_edit() const noexcept { return kind == Kind::kEdit || kind == Kind::kDraftedEdit; }
  /// Tokens that the context has to hold.
  [[nodiscard]] int64_t context() const noexcept;
};

struct BenchResult {
  BenchTest test;
  std::vector<double> seconds = {};  // a repetition
  int64_t macs = 0;                  // of a prompt
  int64_t bytes = 0;                 // of a generation of one sequence
  double read_rate = 0;              // bytes a second: the fastest that memory was read around a generation
  uint64_t logits_checksum = 0;      // XXH64 of the logits: a prompt's last row, all rows of a generation

  /// Tokens a second of each repetition.
  [[nodiscard]] std::vector<double> rates() const;
  /// Bytes a second of the median repetition.
  [[nodiscard]] double byte_rate() const;
  [[nodiscard]] double mac_rate() const;
};

/// The middle one, or the mean of the two in the middle. values: at least one.
[[nodiscard]] double median(std::vector<double> values);

/// Measures one engine. The tokens are always the same random ids. Not thread-safe; the engine outlives it.
class Benchmark {
 public:
  /// context: of the largest test, depth and tokens. read_bytes: of the block of memory that a generation's rate of
  /// reading is held against. Throws as Engine::new_sequence.
  Benchmark(const Engine& engine, int64_t context, int64_t read_bytes = ReadBandwidth::kBytes);

  /// Runs the test `repetitions` times, before that once uncounted when `warm_up`. Every run starts from the same state
  /// after test.depth tokens: they are computed once and kept, so that tests in the order of their depths cost least.
  /// progress hears of all tokens, those of the depth too. Throws as Sequence::feed, Error(kFormat) for logits that are
  /// not finite, and Error(kFormat) when repetitions differ in a logit.
  [[nodiscard]] BenchResult measure(const BenchTest& test, int64_t repetitions, bool warm_up,
                                    const FeedProgress& progress = {});

 private:
  /// Makes the sequence hold the first `depth` ids: the state of the first time, where it was the last depth, too.
  void go_to(int64_t depth, const FeedProgress& progress = {});
  /// Gives the number of seconds. Sets the checksum of the logits.
  double run(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress);
  double run_side_by_side(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress);
  double run_edit(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress);

  const Engine& engine_;
  int64_t read_bytes_;
  Workload workload_;
  std::unique_ptr<Sequence> sequence_;
  std::vector<std::unique_ptr<Sequence>> others_;  // that run beside it
  int64_t depth_ = 0;                              // of the last test
  std::unique_ptr<ReadBandwidth> read_bandwidth_;  // made by the first test of generation
  std::vector<int32_t> ids_;                       // [context]
};

}  // namespace kda
