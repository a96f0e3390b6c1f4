// logits -> token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kda {

struct SamplerOptions {
  float temperature = 0.6F;        // 0: the largest logit, lowest id on ties
  int32_t top_k = 0;               // 0: off
  float top_p = 0.95F;             // 1: off
  float min_p = 0.0F;              // 0: off
  float repeat_penalty = 1.0F;     // 1: off; divides positive and multiplies negative logits of tokens seen
  float presence_penalty = 0.0F;   // subtracted once from a token that was seen
  float frequency_penalty = 0.0F;  // subtracted for every time it was seen
  int32_t penalty_last_n = 256;    // how many of the latest tokens the penalties look at; -1: all
  uint64_t seed = 0;
};

/// Throws Error(kUsage) for a value out of range, by its option name.
void validate(const SamplerOptions& options);

/// One stream of random numbers and the history that penalties need. Not thread-safe.
class Sampler {
 public:
  /// vocab: number of logits. Calls validate.
  Sampler(const SamplerOptions& options, int64_t vocab);

  /// Tells the sampler of a token that is part of the text (prompt or answer).
  void accept(int32_t token);
  /// Picks a token; does not accept it. logits [vocab] are not changed. Allocates nothing.
  /// Throws Error(kFormat) when no logit is finite or one is NaN.
  [[nodiscard]] int32_t sample(std::span<const float> logits);
  /// Takes a candidate out of the next calls to sample (--ignore-eos).
  void ban(int32_t token);

 private:
  SamplerOptions options_;
  uint64_t rng_state_[4];
  std::vector<int32_t> history_;  // ring of the last penalty_last_n tokens
  size_t history_next_ = 0;
  std::vector<int32_t> counts_;  // by id, over the ring
  std::vector<int32_t> banned_;
  std::vector<std::pair<float, int32_t>> candidates_;
};

}  // namespace kda
