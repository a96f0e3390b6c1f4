#include "sampler/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kMaxPenaltyTokens = 1 << 20;  // the longest context of the family

// Logits are sorted into buckets by their distance to the largest one, 1/32 wide; what is further away than 32 shares
// the last bucket: exp(-32) * 163,840 tokens is a share of 2e-9.
constexpr int32_t kBuckets = 1025;
constexpr float kBucketsPerUnit = 32.0F;

int32_t bucket_of(float score, float max) {
  const float distance = (max - score) * kBucketsPerUnit;
  return distance < static_cast<float>(kBuckets - 1) ? static_cast<int32_t>(distance) : kBuckets - 1;
}

void check_range(const char* name, float value, float low, float high) {
  if (!(value >= low && value <= high))
    fail(ErrorCode::kUsage, "{}: expected a number from {} to {}, found {}", name, low, high, value);
}

uint64_t splitmix64(uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// The largest of scores. Throws when there is none that can be taken.
float checked_max(std::span<const float> scores) {
  float max = -kInfinity;
  bool nan = false;
  for (const float score : scores) {
    nan |= std::isnan(score);
    max = score > max ? score : max;
  }
  if (nan) fail(ErrorCode::kFormat, "sampler: a logit is NaN, expected numbers: the model or its state is damaged");
  if (max == kInfinity) fail(ErrorCode::kFormat, "sampler: a logit is +infinity, expected finite numbers");
  if (max == -kInfinity) fail(ErrorCode::kFormat, "sampler: no token can be chosen, every logit is -infinity");
  return max;
}

}  // namespace

void validate(const SamplerOptions& options) {
  check_range("temperature", options.temperature, 0.0F, 100.0F);
  if (options.top_k < 0) fail(ErrorCode::kUsage, "top-k: expected 0 (off) or more, found {}", options.top_k);
  check_range("top-p", options.top_p, 0.0F, 1.0F);
  check_range("min-p", options.min_p, 0.0F, 1.0F);
  check_range("repeat-penalty", options.repeat_penalty, 0.01F, 100.0F);
  check_range("presence-penalty", options.presence_penalty, -100.0F, 100.0F);
  check_range("frequency-penalty", options.frequency_penalty, -100.0F, 100.0F);
  if (options.penalty_last_n < -1 || options.penalty_last_n > kMaxPenaltyTokens)
    fail(ErrorCode::kUsage, "penalty-last-n: expected -1 (all) to {}, found {}", kMaxPenaltyTokens,
         options.penalty_last_n);
}

Sampler::Sampler(const SamplerOptions& options, int64_t vocab)
    : options_(options),
      vocab_(vocab),
      penalties_(options.penalty_last_n != 0 && (options.repeat_penalty != 1.0F || options.presence_penalty != 0.0F ||
                                                 options.frequency_penalty != 0.0F)) {
  validate(options);
  if (vocab < 1 || vocab > std::numeric_limits<int32_t>::max())
    fail(ErrorCode::kUsage, "sampler: {} logits, expected 1 or more", vocab);
  uint64_t state = options.seed;
  for (uint64_t& word : rng_state_) word = splitmix64(state);
  candidates_.reserve(static_cast<size_t>(vocab));
  if (penalties_) {
    scores_.resize(static_cast<size_t>(vocab));
    counts_.assign(static_cast<size_t>(vocab), 0);
    if (options.penalty_last_n > 0) history_.assign(static_cast<size_t>(options.penalty_last_n), -1);
  }
}

void Sampler::check_id(int32_t token) const {
  if (token < 0 || token >= vocab_) fail(ErrorCode::kUsage, "sampler: token {}, expected 0 to {}", token, vocab_ - 1);
}

void Sampler::accept(int32_t token) {
  check_id(token);
  if (!penalties_) return;
  ++counts_[static_cast<size_t>(token)];
  if (history_.empty()) return;
  int32_t& slot = history_[history_next_];
  if (slot >= 0) --counts_[static_cast<size_t>(slot)];
  slot = token;
  history_next_ = (history_next_ + 1) % history_.size();
}

void Sampler::ban(int32_t token) {
  check_id(token);
  scores_.resize(static_cast<size_t>(vocab_));
  banned_.push_back(token);
}

void Sampler::bias(int32_t token, float amount) {
  check_id(token);
  if (!std::isfinite(amount))
    fail(ErrorCode::kUsage, "sampler: the bias of token {} is {}, expected a finite number", token, amount);
  scores_.resize(static_cast<size_t>(vocab_));
  biases_.push_back({amount, token});
}

/// The logits after penalties, biases and bans; the same memory when there are none.
std::span<const float> Sampler::adjust(std::span<const float> logits) {
  if (!penalties_ && banned_.empty() && biases_.empty()) return logits;
  std::copy(logits.begin(), logits.end(), scores_.begin());
  if (penalties_) {
    for (size_t id = 0; id < scores_.size(); ++id) {
      const int32_t count = counts_[id];
      if (count == 0) continue;
      float& score = scores_[id];
      score = score > 0 ? score / options_.repeat_penalty : score * options_.repeat_penalty;
      score -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(count);
    }
  }
  for (const Candidate& bias : biases_) scores_[static_cast<size_t>(bias.id)] += bias.value;
  for (const int32_t id : banned_) scores_[static_cast<size_t>(id)] = -kInfinity;
  return scores_;
}

/// The token of lowest rank that top-k and top-p keep. One pass finds how many tokens and how much probability each
/// bucket has, so that only the bucket in which the border lies needs sorting.
Sampler::Candidate Sampler::last_kept(std::span<const float> scores, float max) {
  Candidate last{-kInfinity, std::numeric_limits<int32_t>::max()};
  const bool use_top_k = options_.top_k > 0 && options_.top_k < vocab_;
  const bool use_top_p = options_.top_p < 1.0F;
  if (!use_top_k && !use_top_p) return last;

  std::array<int32_t, kBuckets> count{};
  std::array<double, kBuckets> mass{};
  for (const float score : scores) {
    const auto b = static_cast<size_t>(bucket_of(score, max));
    ++count[b];
    if (use_top_p) mass[b] += static_cast<double>(std::exp(score - max));
  }
  const auto sort_bucket = [&](size_t bucket) {
    candidates_.clear();
    for (size_t id = 0; id < scores.size(); ++id) {
      if (static_cast<size_t>(bucket_of(scores[id], max)) == bucket)
        candidates_.push_back({scores[id], static_cast<int32_t>(id)});
    }
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.value != b.value ? a.value > b.value : a.id < b.id;
    });
  };

  if (use_top_k) {
    size_t bucket = 0;
    int32_t needed = options_.top_k;
    while (needed > count[bucket]) needed -= count[bucket++];
    sort_bucket(bucket);
    last = candidates_[static_cast<size_t>(needed) - 1];
    mass[bucket] = 0;
    for (int32_t i = 0; use_top_p && i < needed; ++i)
      mass[bucket] += static_cast<double>(std::exp(candidates_[static_cast<size_t>(i)].value - max));
    std::fill(mass.begin() + static_cast<ptrdiff_t>(bucket) + 1, mass.end(), 0.0);
    count[bucket] = needed;
    std::fill(count.begin() + static_cast<ptrdiff_t>(bucket) + 1, count.end(), 0);
  }
  if (use_top_p) {
    double total = 0;
    for (const double m : mass) total += m;
    double needed = static_cast<double>(options_.top_p) * total;
    size_t bucket = 0;
    while (bucket + 1 < kBuckets && needed > mass[bucket]) needed -= mass[bucket++];
    // Rounding may carry the search past the last token that is left: then all are kept.
    if (count[bucket] == 0) return last;
    sort_bucket(bucket);
    size_t i = 0;
    for (; i + 1 < static_cast<size_t>(count[bucket]); ++i) {
      needed -= static_cast<double>(std::exp(candidates_[i].value - max));
      if (needed <= 0) break;
    }
    last = candidates_[i];
  }
  return last;
}

/// xoshiro256** by Blackman and Vigna; the upper 53 bits give a number in [0, 1).
double Sampler::uniform() {
  auto& s = rng_state_;
  const uint64_t result = std::rotl(s[1] * 5, 7) * 9;
  const uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return static_cast<double>(result >> 11) * 0x1p-53;
}

int32_t Sampler::sample(std::span<const float> logits) {
  if (static_cast<int64_t>(logits.size()) != vocab_)
    fail(ErrorCode::kUsage, "sampler: {} logits, expected {}", logits.size(), vocab_);
  const std::span<const float> scores = adjust(logits);
  const float max = checked_max(scores);
  if (options_.temperature == 0.0F)
    return static_cast<int32_t>(std::find(scores.begin(), scores.end(), max) - scores.begin());

  const Candidate last = last_kept(scores, max);
  const float lowest = options_.min_p > 0 ? std::max(last.value, max + std::log(options_.min_p)) : last.value;
  candidates_.clear();
  double total = 0;
  for (size_t id = 0; id < scores.size(); ++id) {
    const float score = scores[id];
    if (score < lowest || (score == last.value && static_cast<int32_t>(id) > last.id)) continue;
    const float weight = std::exp((score - max) / options_.temperature);
    total += static_cast<double>(weight);
    candidates_.push_back({weight, static_cast<int32_t>(id)});
  }
  // The likeliest token is among the candidates and weighs 1.
  double rest = uniform() * total;
  int32_t chosen = -1;
  for (const Candidate& candidate : candidates_) {
    if (candidate.value == 0) continue;
    chosen = candidate.id;
    rest -= static_cast<double>(candidate.value);
    if (rest < 0) break;
  }
  return chosen;
}

}  // namespace kda
