// Nearest row of a grid of the IQ formats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quant/iq_tables.h"

namespace kda {

/// A grid cut into runs of rows that share their upper half: the rows are in ascending order.
template <int kEntries>
class GridIndex {
  static_assert(kEntries == 8 || kEntries == 4);

 public:
  static constexpr int kBits = kEntries == 8 ? 2 : 3;    // of an entry
  static constexpr int kLevels = kEntries == 8 ? 3 : 8;  // that occur

  template <int kRows>
  explicit GridIndex(const uint16_t (&rows)[kRows]) noexcept : rows_(rows) {
    for (int r = 0; r < kRows; ++r) {
      if (r > 0 && rows[r] >> kHalfBits == rows[r - 1] >> kHalfBits) continue;
      upper_[n_runs_] = static_cast<uint8_t>(rows[r] >> kHalfBits);
      begin_[n_runs_++] = static_cast<uint16_t>(r);
    }
    begin_[n_runs_] = kRows;
    for (int run = n_runs_; run < kMaxRuns; ++run) upper_[run] = upper_[n_runs_ - 1];
  }

  /// The row with the least sum of w (x - level)^2 over its kEntries entries; one of them on ties. Every half row is
  /// rated once, and only runs that can still win are looked through.
  [[nodiscard]] int nearest(const float* x, const float* w, const float* levels) const noexcept {
    float low[1 << kHalfBits];
    float high[1 << kHalfBits];
    const float least_low = rate_half(x, w, levels, low);
    rate_half(x + kEntries / 2, w + kEntries / 2, levels, high);
    // Four minima in turn, so that none waits for the one before.
    float of_run[kMaxRuns];
    float least[4] = {3e38F, 3e38F, 3e38F, 3e38F};
    for (int run = 0; run < n_runs_; run += 4) {
      for (int k = 0; k < 4; ++k) {
        of_run[run + k] = high[upper_[run + k]];
        least[k] = of_run[run + k] < least[k] ? of_run[run + k] : least[k];
      }
    }
    const float least_of_run = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
    int first = 0;
    while (first < n_runs_ - 1 && of_run[first] > least_of_run) ++first;

    float best = 3e38F;
    int found = 0;
    const auto look_through = [&](int run) {
      for (int r = begin_[run]; r < begin_[run + 1]; ++r) {
        const float cost = of_run[run] + low[rows_[r] & kHalfMask];
        if (cost < best) {
          best = cost;
          found = r;
        }
      }
    };
    look_through(first);
    for (int run = 0; run < n_runs_; ++run) {
      if (of_run[run] + least_low < best) look_through(run);
    }
    return found;
  }

  [[nodiscard]] int level(int row, int entry) const noexcept {
    return rows_[row] >> kBits * entry & ((1 << kBits) - 1);
  }

 private:
  static constexpr int kHalfBits = kBits * kEntries / 2;
  static constexpr int kMaxRuns = kEntries == 8 ? 84 : 64;  // 3^4 or 8^2, to a multiple of 4
  static constexpr int kHalfMask = (1 << kHalfBits) - 1;

  // Cost of every half row, less sum w x^2, beside which levels far too small would make no difference; returns the
  // least. Halves are built an entry at a time, the last entry outermost.
  static float rate_half(const float* x, const float* w, const float* levels, float* cost) noexcept {
    float of_entry[kEntries / 2][kLevels];
    float least = 0;
    for (int j = 0; j < kEntries / 2; ++j) {
      for (int l = 0; l < kLevels; ++l) of_entry[j][l] = w[j] * levels[l] * (levels[l] - 2 * x[j]);
    }
    for (int j = kEntries / 2 - 1; j >= 0; --j) {
      float least_of_entry = of_entry[j][0];
      for (int l = 1; l < kLevels; ++l)
        least_of_entry = of_entry[j][l] < least_of_entry ? of_entry[j][l] : least_of_entry;
      least = least_of_entry + least;
    }
    for (int b = 0; b < kLevels; ++b) {
      for (int a = 0; a < kLevels; ++a) {
        if constexpr (kEntries == 4) {
          cost[a | b << kBits] = of_entry[0][a] + of_entry[1][b];
        } else {
          const float upper_two = of_entry[2][a] + of_entry[3][b];
          for (int d = 0; d < kLevels; ++d) {
            for (int c = 0; c < kLevels; ++c) {
              cost[c | d << kBits | a << 2 * kBits | b << 3 * kBits] = of_entry[0][c] + (of_entry[1][d] + upper_two);
            }
          }
        }
      }
    }
    return least;
  }

  const uint16_t* rows_;
  int n_runs_ = 0;
  uint16_t begin_[kMaxRuns + 1] = {};
  uint8_t upper_[kMaxRuns] = {};  // upper half of the rows of a run; beyond the last run its own again
};

}  // namespace kda
