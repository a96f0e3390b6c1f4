// Perplexity of a model and its divergence from another, token by token, with error bars.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kda {

/// A number and its standard error, from the spread over tokens; the error of a single token is NaN.
struct Estimate {
  double value = 0;
  double error = 0;
};

/// Mean and standard error of numbers that come one by one (Welford's sums, which do not cancel).
class MeanMeter {
 public:
  void add(double x) noexcept;
  [[nodiscard]] int64_t count() const noexcept { return count_; }
  [[nodiscard]] Estimate mean() const noexcept;

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

/// Logits after a token, with what makes probabilities of them: log p(i) = logits[i] - log_sum.
struct ScoredRow {
  std::span<const float> logits;  // [vocab]
  double log_sum = 0;
  int32_t top = 0;  // the most probable token, the lowest of equal ones

  [[nodiscard]] double log_probability(int32_t id) const noexcept {
    return static_cast<double>(logits[static_cast<size_t>(id)]) - log_sum;
  }
};

/// logits: at least one; the view is kept. Throws Error(kFormat) for one that is not finite.
[[nodiscard]] ScoredRow score_row(std::span<const float> logits);

/// exp of the mean of -log p(next token).
class PerplexityMeter {
 public:
  void add(const ScoredRow& row, int32_t next) noexcept { loss_.add(-row.log_probability(next)); }
  [[nodiscard]] int64_t count() const noexcept { return loss_.count(); }
  /// Nats a token.
  [[nodiscard]] Estimate loss() const noexcept { return loss_.mean(); }
  /// The error is that of the loss times the value, as llama.cpp gives it.
  [[nodiscard]] Estimate perplexity() const noexcept;

 private:
  MeanMeter loss_;
};

/// How far a model's next-token distributions Q are from those of a base, P: D = sum_i p_i (log p_i - log q_i), nats.
class DivergenceMeter {
 public:
  /// Rows of the same length; next: the token that the text has there.
  void add(const ScoredRow& base, const ScoredRow& row, int32_t next);

  [[nodiscard]] Estimate mean() const noexcept { return divergence_.mean(); }
  /// The divergence that a share of the tokens (0 to 1) does not exceed, between neighbours by linear interpolation.
  /// 0 without tokens.
  [[nodiscard]] double quantile(double share) const;
  [[nodiscard]] double largest() const noexcept { return largest_; }
  /// Share of the tokens where both have the same most probable token.
  [[nodiscard]] Estimate same_top() const noexcept { return same_top_.mean(); }
  /// Perplexity of the model over that of the base; the error is that of the paired difference.
  [[nodiscard]] Estimate perplexity_ratio() const noexcept;

 private:
  MeanMeter divergence_, same_top_, loss_difference_;
  double largest_ = 0;
  std::vector<float> all_;  // a number a token
};

}  // namespace kda
