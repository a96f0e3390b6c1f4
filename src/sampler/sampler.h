// logits -> token.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace kda {

/// The steps run in this order, the one that llama.cpp has by default: penalties, top-k, top-p, min-p, temperature. So
/// top-p and min-p look at the probabilities that the model gave (temperature 1), and top-p at those of the tokens that
/// top-k left. Tokens of equal logit rank by id, lowest first.
struct SamplerOptions {
  float temperature = 0.6F;        // 0: the largest logit, lowest id on ties
  int32_t top_k = 0;               // 0: off
  float top_p = 0.95F;             // 1: off; the fewest likeliest tokens that have this share together, at least one
  float min_p = 0.0F;              // 0: off; a token must be this likely in relation to the likeliest
  float repeat_penalty = 1.0F;     // 1: off; divides positive and multiplies negative logits of tokens seen
  float presence_penalty = 0.0F;   // subtracted once from a token that was seen
  float frequency_penalty = 0.0F;  // subtracted for every time it was seen
  int32_t penalty_last_n = 256;    // how many of the latest tokens the penalties look at; -1: all
  uint64_t seed = 0;
};

/// Throws Error(kUsage) for a value out of range, by its option name.
void validate(const SamplerOptions& options);

/// One stream of random numbers and the history that penalties need. The tokens depend on nothing but the options, the
/// tokens accepted and the logits. Not thread-safe.
class Sampler {
 public:
  /// vocab: number of logits. Calls validate.
  Sampler(const SamplerOptions& options, int64_t vocab);

  /// Tells the sampler of a token that is part of the text (prompt or answer). Throws Error(kUsage) for an id out of
  /// range.
  void accept(int32_t token);
  /// Picks a token; does not accept it. logits [vocab] are not changed. Allocates nothing.
  /// Throws Error(kFormat) when one logit is NaN or +infinity or none is above -infinity, Error(kUsage) for a wrong
  /// number of logits.
  [[nodiscard]] int32_t sample(std::span<const float> logits);
  /// Takes a candidate out of the next calls to sample (--ignore-eos). Throws Error(kUsage) for an id out of range.
  void ban(int32_t token);
  /// Adds to the logit of a token in the next calls to sample, after the penalties. Throws Error(kUsage) for an id out
  /// of range or an amount that is not finite.
  void bias(int32_t token, float amount);

 private:
  struct Candidate {
    float value;  // logit or weight
    int32_t id;
  };

  void check_id(int32_t token) const;
  std::span<const float> adjust(std::span<const float> logits);
  Candidate last_kept(std::span<const float> scores, float max);
  double uniform();

  SamplerOptions options_;
  int64_t vocab_;
  bool penalties_;
  std::array<uint64_t, 4> rng_state_;
  std::vector<int32_t> history_;  // ring of the last penalty_last_n tokens; empty when all count
  size_t history_next_ = 0;
  std::vector<int32_t> counts_;  // by id: how often it is in the history
  std::vector<int32_t> banned_;
  std::vector<Candidate> biases_;      // value: what is added
  std::vector<float> scores_;          // logits after penalties, biases and bans
  std::vector<Candidate> candidates_;  // room for vocab
};

}  // namespace kda
