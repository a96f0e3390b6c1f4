#include "measure/meters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kda {

void MeanMeter::add(double x) noexcept {
  ++count_;
  const double distance = x - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (x - mean_);
}

Estimate MeanMeter::mean() const noexcept {
  const auto n = static_cast<double>(count_);
  return {mean_, count_ < 2 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(squares_ / (n - 1) / n)};
}

ScoredRow score_row(std::span<const float> logits) {
  const auto bad = std::ranges::find_if(logits, [](float x) { return !std::isfinite(x); });
  if (bad != logits.end()) {
    fail(ErrorCode::kFormat, "model: the logit of token {} is {}, expected a finite number", bad - logits.begin(),
         *bad);
  }
  const auto top = std::ranges::max_element(logits) - logits.begin();
  const auto highest = static_cast<double>(logits[static_cast<size_t>(top)]);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - highest);
  return {logits, highest + std::log(sum), static_cast<int32_t>(top)};
}

Estimate PerplexityMeter::perplexity() const noexcept {
  const Estimate mean = loss();
  const double value = std::exp(mean.value);
  return {value, value * mean.error};
}

void DivergenceMeter::add(const ScoredRow& base, const ScoredRow& row, int32_t next) {
  double sum = 0;
  for (size_t i = 0; i < base.logits.size(); ++i) {
    const double log_p = static_cast<double>(base.logits[i]) - base.log_sum;
    const double log_q = static_cast<double>(row.logits[i]) - row.log_sum;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  sum = std::max(sum, 0.0);  // of nearly equal distributions rounding can make it negative
  divergence_.add(sum);
  largest_ = std::max(largest_, sum);
  all_.push_back(static_cast<float>(sum));
  same_top_.add(base.top == row.top ? 1 : 0);
  loss_difference_.add(base.log_probability(next) - row.log_probability(next));
}

double DivergenceMeter::quantile(double share) const {
  if (all_.empty()) return 0;
  std::vector<float> sorted = all_;
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(at);
  std::ranges::nth_element(sorted, sorted.begin() + below);
  const double low = sorted[static_cast<size_t>(below)];
  if (static_cast<size_t>(below) + 1 == sorted.size()) return low;
  const double high = *std::min_element(sorted.begin() + below + 1, sorted.end());
  return low + (high - low) * (at - static_cast<double>(below));
}

Estimate DivergenceMeter::perplexity_ratio() const noexcept {
  const Estimate mean = loss_difference_.mean();
  const double value = std::exp(mean.value);
  return {value, value * mean.error};
}

}  // namespace kda
