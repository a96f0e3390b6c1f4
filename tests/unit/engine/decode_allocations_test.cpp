// Replaces operator new of this program to count what a decode step takes from the heap, on any thread.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "unit/engine/engine_support.h"

namespace {
std::atomic<int64_t> n_allocations{0};
}

// Not inlined, so that the compiler does not take malloc() and free() for wrong partners of delete and new.
[[gnu::noinline]] void* operator new(size_t size) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace kda {
namespace {

class DecodeAllocations : public test::EngineTest {};

TEST_F(DecodeAllocations, AStepTakesNothingFromTheHeap) {
  const auto sequence = engine_->new_sequence(200);
  sequence->feed(test::some_ids(20));
  const std::vector<int32_t> ids = test::some_ids(100, 2);
  const int64_t before = n_allocations;
  EXPECT_GT(before, 0);
  for (const int32_t id : ids) sequence->feed({&id, 1});
  EXPECT_EQ(n_allocations - before, 0);
}

TEST_F(DecodeAllocations, NorDoesAStepWithGuesses) {
  const auto sequence = engine_->new_sequence(200);
  const std::vector<int32_t> ids = test::some_ids(100, 2);
  const int64_t before = n_allocations;
  for (size_t i = 0; i + 4 < ids.size(); i += 3) {  // the fourth guess is never asked for
    sequence->feed_guessing(ids[i], std::span(ids).subspan(i + 1, 3));
    EXPECT_TRUE(sequence->feed_guessed(ids[i + 1]) && sequence->feed_guessed(ids[i + 2]));
  }
  EXPECT_EQ(n_allocations - before, 0);
}

TEST_F(DecodeAllocations, APromptTakesNothingFromTheHeapEither) {
  const auto sequence = engine_->new_sequence(200);
  const std::vector<int32_t> ids = test::some_ids(100, 2);
  const int64_t before = n_allocations;
  sequence->feed(ids);
  EXPECT_EQ(n_allocations - before, 0);
}

}  // namespace
}  // namespace kda
