#include "engine/ngram_drafter.h"

#include <algorithm>

namespace kda {

namespace {

// Two equal tokens are met by chance everywhere; a guess costs a pass that is half again as long as one without.
constexpr int64_t kLeastMatch = 3;
constexpr int64_t kMostMatch = 8;
constexpr int64_t kFirstGuesses = 4;

}  // namespace

NgramDrafter::NgramDrafter(int64_t max_guesses)
    : max_guesses_(max_guesses), n_guesses_(std::min(max_guesses, kFirstGuesses)), least_match_(kLeastMatch) {}

void NgramDrafter::append(std::span<const int32_t> ids) { text_.insert(text_.end(), ids.begin(), ids.end()); }

std::span<const int32_t> NgramDrafter::guess() const noexcept {
  const auto n = static_cast<int64_t>(text_.size());
  int64_t best = 0;  // where the text goes on behind the place
  int64_t best_match = least_match_ - 1;
  for (int64_t at = n - 1; at > best_match && best_match < kMostMatch; --at) {
    int64_t match = 0;
    while (match < kMostMatch && match < at &&
           text_[static_cast<size_t>(at - 1 - match)] == text_[static_cast<size_t>(n - 1 - match)]) {
      ++match;
    }
    if (match > best_match) {
      best_match = match;
      best = at;
    }
  }
  if (best == 0) return {};
  return std::span(text_).subspan(static_cast<size_t>(best), static_cast<size_t>(std::min(n_guesses_, n - best)));
}

void NgramDrafter::learn(int64_t n_guessed, int64_t n_right) noexcept {
  if (n_guessed == 0) return;
  if (n_right == n_guessed) {
    n_guesses_ = std::min(max_guesses_, 2 * n_guesses_);
    least_match_ = kLeastMatch;
  } else {
    n_guesses_ = std::clamp<int64_t>(n_right + 1, 1, max_guesses_);
    if (n_right == 0) least_match_ = std::min(kMostMatch, least_match_ + 1);
  }
}

DraftedFeed::DraftedFeed(Sequence& sequence, std::span<const int32_t> text) : sequence_(sequence) {
  if (sequence.max_guesses() == 0) return;
  drafter_.emplace(sequence.max_guesses());
  drafter_->append(text);
}

void DraftedFeed::feed(int32_t id) {
  if (!drafter_) return sequence_.feed({&id, 1});
  drafter_->append({&id, 1});
  if (sequence_.feed_guessed(id)) {
    ++n_right_;
    ++n_right_now_;
    return;
  }
  drafter_->learn(n_guessed_now_, n_right_now_);
  const std::span<const int32_t> guesses = drafter_->guess();
  n_guessed_now_ = static_cast<int64_t>(guesses.size());
  n_right_now_ = 0;
  n_guessed_ += n_guessed_now_;
  sequence_.feed_guessing(id, guesses);
}

}  // namespace kda
