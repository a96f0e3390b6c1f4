#include "ops/arena.h"

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"

namespace kda {
namespace {

TEST(Arena, MeasuresExactlyWhatItHandsOut) {
  const auto lay_out = [](Arena& arena) {
    (void)arena.take<char>(3);
    const size_t begin = arena.position();
    (void)arena.take<float>(1000);
    arena.rewind(begin);
    (void)arena.take<int16_t>(5);
    arena.skip_to_peak();
    return arena.take<double>(7);
  };
  Arena measuring;
  EXPECT_EQ(lay_out(measuring), nullptr);
  EXPECT_EQ(measuring.peak_bytes(), 64U + 4032 + 64);
  const AlignedBuffer memory(measuring.peak_bytes());
  Arena arena({memory.data(), memory.size_bytes()});
  EXPECT_EQ(reinterpret_cast<std::byte*>(lay_out(arena)), memory.data() + 64 + 4032);
  EXPECT_EQ(arena.peak_bytes(), measuring.peak_bytes());
}

TEST(Arena, WhatIsTakenAfterTurnsLiesBehindAllOfThem) {
  const AlignedBuffer memory(4096);
  Arena arena({memory.data(), memory.size_bytes()});
  const size_t begin = arena.position();
  const auto* large = arena.take<char>(1000);
  arena.rewind(begin);
  const auto* small = arena.take<char>(10);
  arena.skip_to_peak();
  EXPECT_EQ(large, small);
  EXPECT_GE(arena.take<char>(1), large + 1000);
}

}  // namespace
}  // namespace kda
