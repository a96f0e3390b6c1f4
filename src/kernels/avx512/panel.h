// Products as sums of outer products: rows of a left matrix times panels of 16 columns of a right one, in registers.
#pragma once

#include "kernels/avx512/simd.h"

namespace kda::avx512 {
namespace {

inline constexpr int kPanelRows = 6;  // of a block of sums: 24 registers of sums, 4 of panels and a factor
inline constexpr int kPanels = 4;

template <int kN>
struct Count {
  static constexpr int kValue = kN;
};

/// Calls f(row, count) for groups of kPanelRows rows and then smaller ones.
template <typename F>
KDA_INLINE void for_row_groups(int64_t n_rows, F f) {
  int64_t row = 0;
  for (; row + kPanelRows <= n_rows; row += kPanelRows) f(row, Count<kPanelRows>());
  if (row + 4 <= n_rows) {
    f(row, Count<4>());
    row += 4;
  }
  for (; row < n_rows; ++row) f(row, Count<1>());
}

/// Calls f(panel, count) for groups of kPanels panels and then single ones.
template <typename F>
KDA_INLINE void for_panel_groups(int64_t n_panels, F f) {
  int64_t panel = 0;
  for (; panel + kPanels <= n_panels; panel += kPanels) f(panel, Count<kPanels>());
  for (; panel < n_panels; ++panel) f(panel, Count<1>());
}

/// sum[r][v] = sum over i < depth, in order, of a[r * a_stride + i] * row i of panel v; panels lie panel_stride apart.
template <int kN, int kV>
KDA_INLINE void multiply(const float* a, int64_t a_stride, const float* panels, int64_t panel_stride, int64_t depth,
                         __m512 (&sum)[kN][kV]) {
  KDA_UNROLL
  for (int r = 0; r < kN; ++r) {
    KDA_UNROLL
    for (int v = 0; v < kV; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < depth; ++i, panels += kPanelColumns) {
    __m512 column[kV];
    KDA_UNROLL
    for (int v = 0; v < kV; ++v) column[v] = _mm512_loadu_ps(panels + v * panel_stride);
    KDA_UNROLL
    for (int r = 0; r < kN; ++r) {
      const __m512 factor = _mm512_set1_ps(a[r * a_stride + i]);
      KDA_UNROLL
      for (int v = 0; v < kV; ++v) sum[r][v] = _mm512_fmadd_ps(factor, column[v], sum[r][v]);
    }
  }
}

}  // namespace
}  // namespace kda::avx512
