// Guesses what comes next from what came before: prompt lookup.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace kda {

/// Looks for the latest earlier place where the text ended as it does now, and guesses that it goes on in the same way.
/// Right guesses make the next ones longer, wrong ones shorter and ask for more text that agrees. Not thread-safe.
class NgramDrafter {
 public:
  /// max_guesses: most tokens a guess, at least 1.
  explicit NgramDrafter(int64_t max_guesses);

  /// The text goes on with ids.
  void append(std::span<const int32_t> ids);
  /// The tokens that may come next, perhaps none; valid until append(). Takes time in proportion to the text.
  [[nodiscard]] std::span<const int32_t> guess() const noexcept;
  /// How many of the last guess's n_guessed tokens came true.
  void learn(int64_t n_guessed, int64_t n_right) noexcept;

 private:
  int64_t max_guesses_;
  int64_t n_guesses_;    // tokens of the next guess
  int64_t least_match_;  // tokens that have to agree
  std::vector<int32_t> text_;
};

/// Sends the tokens of a text through a model one by one, with guesses of the ones to come where the engine takes them.
class DraftedFeed {
 public:
  /// sequence outlives the object and holds `text`.
  DraftedFeed(Sequence& sequence, std::span<const int32_t> text);

  /// sequence.feed() of one token, perhaps without work. Throws what that throws.
  void feed(int32_t id);

  [[nodiscard]] int64_t n_guessed() const noexcept { return n_guessed_; }
  [[nodiscard]] int64_t n_right() const noexcept { return n_right_; }

 private:
  Sequence& sequence_;
  std::optional<NgramDrafter> drafter_;
  int64_t n_guessed_ = 0;
  int64_t n_right_ = 0;
  int64_t n_guessed_now_ = 0;  // in the latest pass
  int64_t n_right_now_ = 0;
};

}  // namespace kda
