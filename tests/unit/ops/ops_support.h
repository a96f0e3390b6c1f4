// A CpuOps with its threads and memory.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "ops/cpu_ops.h"

namespace kda::test {

class OpsBox {
 public:
  OpsBox(int n_threads, const KernelTable& kernels, const OpsLimits& limits, bool exact = false)
      : pool_(n_threads), memory_(bytes(pool_, kernels, limits)), arena_({memory_.data(), memory_.size_bytes()}) {
    ops_ = std::make_unique<CpuOps>(pool_, kernels, exact, limits, arena_);
  }

  Ops* operator->() { return ops_.get(); }

 private:
  static size_t bytes(ThreadPool& pool, const KernelTable& kernels, const OpsLimits& limits) {
    Arena arena;
    const CpuOps measured(pool, kernels, false, limits, arena);
    return arena.peak_bytes();
  }

  ThreadPool pool_;
  AlignedBuffer memory_;
  Arena arena_;
  std::unique_ptr<CpuOps> ops_;
};

/// Floats with their shape.
struct Matrix {
  Matrix(int64_t rows, int64_t cols) : n_rows(rows), n_cols(cols), values(static_cast<size_t>(rows * cols)) {}
  Matrix(int64_t rows, int64_t cols, uint32_t seed, float scale = 1) : Matrix(rows, cols) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random) * scale;
  }

  [[nodiscard]] MatView view() { return {values.data(), n_rows, n_cols, n_cols}; }
  [[nodiscard]] MatView view(int64_t begin, int64_t n) { return view().rows_from(begin, n); }
  float& at(int64_t row, int64_t col) { return values[static_cast<size_t>(row * n_cols + col)]; }

  int64_t n_rows, n_cols;
  std::vector<float> values;
};

}  // namespace kda::test
