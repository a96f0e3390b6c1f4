#include "engine/ngram_drafter.h"

#include <gtest/gtest.h>

namespace kda {
namespace {

std::vector<int32_t> guess_after(std::vector<int32_t> text, int64_t max_guesses = 15) {
  NgramDrafter drafter(max_guesses);
  drafter.append(text);
  const auto guess = drafter.guess();
  return {guess.begin(), guess.end()};
}

using Ids = std::vector<int32_t>;

TEST(NgramDrafter, GoesOnAsTheTextDidBefore) {
  EXPECT_EQ(guess_after({9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}), (Ids{4, 5, 6, 7}));
  EXPECT_EQ(guess_after({9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}, 2), (Ids{4, 5}));
}

TEST(NgramDrafter, TakesTheLongestMatchAndOfThoseTheLatest) {
  EXPECT_EQ(guess_after({5, 1, 2, 3, 10, 6, 1, 2, 3, 11, 5, 1, 2, 3}), (Ids{10, 6, 1, 2}));
  EXPECT_EQ(guess_after({0, 1, 2, 3, 10, 7, 1, 2, 3, 11, 8, 8, 9, 1, 2, 3}), (Ids{11, 8, 8, 9}));
}

TEST(NgramDrafter, GuessesNothingWithoutAMatch) {
  EXPECT_TRUE(guess_after({}).empty());
  EXPECT_TRUE(guess_after({1}).empty());
  EXPECT_TRUE(guess_after({1, 2, 3, 4, 5}).empty());
  EXPECT_TRUE(guess_after({1, 2, 9, 1, 2}).empty());  // two tokens are too few
}

TEST(NgramDrafter, ALoopIsGuessedToGoOn) { EXPECT_EQ(guess_after({4, 4, 4, 4, 4, 4}), (Ids{4})); }

TEST(NgramDrafter, LearnsHowFarToGuess) {
  NgramDrafter drafter(15);
  Ids text;
  for (int32_t i = 0; i < 40; ++i) text.push_back(i);
  drafter.append(text);
  drafter.append(Ids{0, 1, 2});
  EXPECT_EQ(drafter.guess().size(), 4U);
  drafter.learn(4, 4);
  EXPECT_EQ(drafter.guess().size(), 8U);
  drafter.learn(8, 8);
  drafter.learn(15, 15);
  EXPECT_EQ(drafter.guess().size(), 15U);
  drafter.learn(15, 1);
  EXPECT_EQ(drafter.guess().size(), 2U);
  drafter.learn(2, 0);
  EXPECT_TRUE(drafter.guess().empty()) << "three tokens that agree are not enough any more";
  drafter.append(Ids{3});
  EXPECT_EQ(drafter.guess().size(), 1U);
}

}  // namespace
}  // namespace kda
