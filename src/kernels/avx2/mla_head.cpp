// Attention of one head with keys and values made from the latents, a tile of keys at a time for all query rows (the
// softmax: online_softmax.h). All four products (keys and values from latents, scores, contexts) are sums of outer
// products: six rows of the left matrix times a panel of 16 columns of the right one, in registers.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/online_softmax.h"
#include "kernels/avx2/simd.h"

namespace kda::avx2 {
namespace {

constexpr int64_t kRows = 6;  // of a block of sums: 12 registers of sums, 2 of the panel and a factor

// Columns of the left matrix at a time: a panel of as many rows stays in the first-level cache, and short chains of
// additions keep the rounding error small.
constexpr int64_t kDepth = 192;

KDA_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
KDA_INLINE int64_t panels(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

template <int kN>
struct Count {
  static constexpr int kValue = kN;
};

/// Calls f(row, count) for groups of kRows rows and then smaller ones.
template <typename F>
KDA_INLINE void for_row_groups(int64_t n_rows, F f) {
  int64_t row = 0;
  for (; row + kRows <= n_rows; row += kRows) f(row, Count<kRows>());
  for (; row + 2 <= n_rows; row += 2) f(row, Count<2>());
  if (row < n_rows) f(row, Count<1>());
}

/// sum[r] = sum over i < depth, in order, of a[r * a_stride + i] * panel[i].
template <int kN>
KDA_INLINE void multiply(const float* a, int64_t a_stride, const float* panel, int64_t depth, __m256 (&sum)[kN][2]) {
  for (auto& s : sum) s[0] = s[1] = _mm256_setzero_ps();
  for (int64_t i = 0; i < depth; ++i, panel += kPanelColumns) {
    const __m256 low = _mm256_loadu_ps(panel);
    const __m256 high = _mm256_loadu_ps(panel + 8);
    for (int r = 0; r < kN; ++r) {
      const __m256 factor = _mm256_broadcast_ss(a + r * a_stride + i);
      sum[r][0] = _mm256_fmadd_ps(factor, low, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(factor, high, sum[r][1]);
    }
  }
}

/// out [n_keys rows of a panel, out_stride apart] = latents * panel of `up`.
void expand_panel(const MlaHeadArgs& args, const float* latents, int64_t n_keys, const float* up, float* out,
                  int64_t out_stride) {
  const int64_t latent_dim = args.rank + args.dim_pe;
  for (int64_t begin = 0; begin < args.rank; begin += kDepth) {
    const int64_t depth = smaller(kDepth, args.rank - begin);
    for_row_groups(n_keys, [&](int64_t key, auto count) {
      __m256 sum[count.kValue][2];
      multiply(latents + key * latent_dim + begin, latent_dim, up + begin * kPanelColumns, depth, sum);
      for (int r = 0; r < count.kValue; ++r) {
        for (int v = 0; v < 2; ++v) {
          float* to = out + (key + r) * out_stride + 8 * v;
          _mm256_storeu_ps(to, begin == 0 ? sum[r][v] : _mm256_add_ps(_mm256_loadu_ps(to), sum[r][v]));
        }
      }
    });
  }
}

/// 8 x 8 floats: rows[r][0..7] become column r of to, whose rows lie kPanelColumns apart.
KDA_INLINE void transpose_8x8(const float* const (&rows)[8], int64_t column, float* to) {
  __m256 a[8];
  __m256 b[8];
  for (int r = 0; r < 8; ++r) a[r] = _mm256_loadu_ps(rows[r] + column);
  for (int r = 0; r < 8; r += 2) {
    b[r] = _mm256_unpacklo_ps(a[r], a[r + 1]);
    b[r + 1] = _mm256_unpackhi_ps(a[r], a[r + 1]);
  }
  for (int r = 0; r < 8; r += 4) {
    a[r] = _mm256_shuffle_ps(b[r], b[r + 2], 0x44);
    a[r + 1] = _mm256_shuffle_ps(b[r], b[r + 2], 0xEE);
    a[r + 2] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0x44);
    a[r + 3] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0xEE);
  }
  for (int r = 0; r < 4; ++r) {
    _mm256_storeu_ps(to + r * kPanelColumns, _mm256_permute2f128_ps(a[r], a[r + 4], 0x20));
    _mm256_storeu_ps(to + (r + 4) * kPanelColumns, _mm256_permute2f128_ps(a[r], a[r + 4], 0x31));
  }
}

/// out [n_columns, kPanelColumns] = the transpose of from [kPanelColumns, n_columns]; rows from n_rows on repeat the
/// last one.
void transpose(const float* from, int64_t stride, int64_t n_rows, int64_t n_columns, float* out) {
  for (int64_t half = 0; half < kPanelColumns; half += 8) {
    const float* rows[8];
    for (int64_t r = 0; r < 8; ++r) rows[r] = from + smaller(half + r, n_rows - 1) * stride;
    int64_t column = 0;
    for (; column + 8 <= n_columns; column += 8) transpose_8x8(rows, column, out + column * kPanelColumns + half);
    for (; column < n_columns; ++column) {
      for (int64_t r = 0; r < 8; ++r) out[column * kPanelColumns + half + r] = rows[r][column];
    }
  }
}

struct Scratch {
  explicit Scratch(const MlaHeadArgs& args)
      : key_rows(args.scratch),
        values(key_rows + kMlaTileKeys * panels(args.dim_nope) * kPanelColumns),
        keys(values + kMlaTileKeys * panels(args.dim_v) * kPanelColumns),
        scores(keys + kMlaTileKeys * (args.dim_nope + args.dim_pe)),
        shrink(scores + kMlaHeadRows * kMlaTileKeys) {}

  float* key_rows;  // [kMlaTileKeys, panels of dim_nope]
  float* values;    // [panels of dim_v, kMlaTileKeys, kPanelColumns]
  float* keys;      // [panels of kMlaTileKeys, dim_nope + dim_pe, kPanelColumns]: a column a key
  float* scores;    // [kMlaHeadRows, kMlaTileKeys]; then the weights of the softmax
  float* shrink;    // [kMlaHeadRows] by which the tile scales what came before
};

/// Keys and values of a tile from its latents.
void expand(const MlaHeadArgs& args, const Scratch& scratch, const float* latents, int64_t n_keys) {
  const int64_t latent_dim = args.rank + args.dim_pe;
  const int64_t key_panels = panels(args.dim_nope);
  const int64_t row = key_panels * kPanelColumns;
  const float* up = args.up;
  for (int64_t panel = 0; panel < key_panels; ++panel, up += args.rank * kPanelColumns) {
    expand_panel(args, latents, n_keys, up, scratch.key_rows + panel * kPanelColumns, row);
  }
  for (int64_t panel = 0; panel < panels(args.dim_v); ++panel, up += args.rank * kPanelColumns) {
    expand_panel(args, latents, n_keys, up, scratch.values + panel * kMlaTileKeys * kPanelColumns, kPanelColumns);
  }
  for (int64_t key = 0; key < n_keys; key += kPanelColumns) {
    float* to = scratch.keys + key * (args.dim_nope + args.dim_pe);
    transpose(scratch.key_rows + key * row, row, n_keys - key, args.dim_nope, to);
    transpose(latents + key * latent_dim + args.rank, latent_dim, n_keys - key, args.dim_pe,
              to + args.dim_nope * kPanelColumns);
  }
}

/// Rows [row, row + n_rows) and the tile of keys from `begin` on; all rows see its first key.
void attend(const MlaHeadArgs& args, const Scratch& scratch, int64_t row, int64_t n_rows, int64_t begin) {
  const int64_t dim_qk = args.dim_nope + args.dim_pe;
  const int64_t n_seen = args.first_position + row + 1 - begin;  // keys of the tile and later ones that `row` sees
  const int64_t n_keys = smaller(kMlaTileKeys, n_seen + n_rows - 1);
  const __m256 scale = _mm256_set1_ps(args.scale);
  for (int64_t key = 0; key < n_keys; key += kPanelColumns) {
    for_row_groups(n_rows, [&](int64_t r, auto count) {
      __m256 sum[count.kValue][2];
      multiply(args.q + (row + r) * args.q_stride, args.q_stride, scratch.keys + key * dim_qk, dim_qk, sum);
      for (int i = 0; i < count.kValue; ++i) {
        float* to = scratch.scores + (r + i) * kMlaTileKeys + key;
        _mm256_storeu_ps(to, _mm256_mul_ps(sum[i][0], scale));
        _mm256_storeu_ps(to + 8, _mm256_mul_ps(sum[i][1], scale));
      }
    });
  }
  const bool first = begin == 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    scratch.shrink[r] =
        weigh_row(scratch.scores + r * kMlaTileKeys, smaller(kMlaTileKeys, n_seen + r), first, args.states[row + r]);
  }
  for (int64_t column = 0; column < args.dim_v; column += kPanelColumns) {
    const float* panel = scratch.values + column * kMlaTileKeys;
    const __m256i masks[2] = {first_lanes(smaller(args.dim_v - column, 8)),
                              first_lanes(larger(0, smaller(args.dim_v - column - 8, 8)))};
    for_row_groups(n_rows, [&](int64_t r, auto count) {
      __m256 sum[count.kValue][2];
      multiply(scratch.scores + r * kMlaTileKeys, kMlaTileKeys, panel,
               smaller(kMlaTileKeys, n_seen + r + count.kValue - 1), sum);
      for (int i = 0; i < count.kValue; ++i) {
        const __m256 shrink = _mm256_set1_ps(scratch.shrink[r + i]);
        for (int v = 0; v < 2; ++v) {
          float* out = args.out + (row + r + i) * args.out_stride + column + 8 * v;
          __m256 total = sum[i][v];
          if (!first) total = _mm256_fmadd_ps(_mm256_maskload_ps(out, masks[v]), shrink, total);
          _mm256_maskstore_ps(out, masks[v], total);
        }
      }
    });
  }
}

}  // namespace

void mla_head(const MlaHeadArgs& args) {
  const Scratch scratch(args);
  const int64_t n_all = args.first_position + args.n_rows;
  for (int64_t begin = 0; begin < n_all; begin += kMlaTileKeys) {
    expand(args, scratch, args.cache + begin * (args.rank + args.dim_pe), smaller(kMlaTileKeys, n_all - begin));
    for (int64_t row = larger(0, begin - args.first_position); row < args.n_rows; row += kMlaHeadRows) {
      attend(args, scratch, row, smaller(kMlaHeadRows, args.n_rows - row), begin);
    }
  }
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const __m256 inverse = _mm256_set1_ps(1.0F / args.states[r].sum);
    float* out = args.out + r * args.out_stride;
    for (int64_t i = 0; i < args.dim_v; i += 8) {
      const __m256i mask = first_lanes(smaller(args.dim_v - i, 8));
      _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(_mm256_maskload_ps(out + i, mask), inverse));
    }
  }
}

}  // namespace kda::avx2
