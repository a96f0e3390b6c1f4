// Attention of one head with keys and values made from the latents, a tile of keys at a time for all query rows (the
// softmax: avx2/online_softmax.h). All four products (keys and values from latents, scores, contexts) go by panels.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/online_softmax.h"
#include "kernels/avx512/panel.h"
#include "kernels/avx512/simd.h"

namespace kda::avx512 {
namespace {

// Columns of the left matrix at a time: four panels of as many rows nearly stay in the first-level cache, and short
// chains of additions keep the rounding error small.
constexpr int64_t kDepth = 128;

KDA_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
KDA_INLINE int64_t panels(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

/// out = latents * up for n_panels panels; row `key` of panel p goes to out + key * row_stride + p * panel_stride.
void expand_panels(const MlaHeadArgs& args, const float* latents, int64_t n_keys, const float* up, int64_t n_panels,
                   float* out, int64_t row_stride, int64_t panel_stride) {
  const int64_t latent_dim = args.rank + args.dim_pe;
  const int64_t up_stride = args.rank * kPanelColumns;
  for_panel_groups(n_panels, [&](int64_t panel, auto n_columns) {
    for (int64_t begin = 0; begin < args.rank; begin += kDepth) {
      const int64_t depth = smaller(kDepth, args.rank - begin);
      for_row_groups(n_keys, [&](int64_t key, auto n_rows) {
        __m512 sum[n_rows.kValue][n_columns.kValue];
        multiply(latents + key * latent_dim + begin, latent_dim, up + panel * up_stride + begin * kPanelColumns,
                 up_stride, depth, sum);
        KDA_UNROLL
        for (int r = 0; r < n_rows.kValue; ++r) {
          KDA_UNROLL
          for (int v = 0; v < n_columns.kValue; ++v) {
            float* to = out + (key + r) * row_stride + (panel + v) * panel_stride;
            _mm512_storeu_ps(to, begin == 0 ? sum[r][v] : _mm512_add_ps(_mm512_loadu_ps(to), sum[r][v]));
          }
        }
      });
    }
  });
}

/// 16 x 16 floats: row r of `from` becomes column r of to, both of whose rows lie kPanelColumns apart. Rows of `from`
/// lie stride apart; from n_rows on they repeat the last one. Columns from n_columns on are not read.
KDA_INLINE void transpose_16x16(const float* from, int64_t stride, int64_t n_rows, int64_t n_columns, float* to) {
  const __mmask16 mask = first_lanes(n_columns);
  __m512 a[16];
  __m512 b[16];
  KDA_UNROLL
  for (int r = 0; r < 16; ++r) a[r] = _mm512_maskz_loadu_ps(mask, from + smaller(r, n_rows - 1) * stride);
  KDA_UNROLL
  for (int r = 0; r < 16; r += 2) {
    b[r] = _mm512_unpacklo_ps(a[r], a[r + 1]);
    b[r + 1] = _mm512_unpackhi_ps(a[r], a[r + 1]);
  }
  KDA_UNROLL
  for (int r = 0; r < 16; r += 4) {
    a[r] = _mm512_shuffle_ps(b[r], b[r + 2], 0x44);
    a[r + 1] = _mm512_shuffle_ps(b[r], b[r + 2], 0xEE);
    a[r + 2] = _mm512_shuffle_ps(b[r + 1], b[r + 3], 0x44);
    a[r + 3] = _mm512_shuffle_ps(b[r + 1], b[r + 3], 0xEE);
  }
  KDA_UNROLL
  for (int c = 0; c < 4; ++c) {  // quarter q of a[4 g + c] holds rows 4 g .. 4 g + 3 of column 4 q + c
    const __m512 low = _mm512_shuffle_f32x4(a[c], a[c + 4], 0x88);         // quarters 0, 2 of groups 0, 1
    const __m512 high = _mm512_shuffle_f32x4(a[c], a[c + 4], 0xDD);        // quarters 1, 3
    const __m512 low_2 = _mm512_shuffle_f32x4(a[c + 8], a[c + 12], 0x88);  // of groups 2, 3
    const __m512 high_2 = _mm512_shuffle_f32x4(a[c + 8], a[c + 12], 0xDD);
    b[c] = _mm512_shuffle_f32x4(low, low_2, 0x88);
    b[c + 4] = _mm512_shuffle_f32x4(high, high_2, 0x88);
    b[c + 8] = _mm512_shuffle_f32x4(low, low_2, 0xDD);
    b[c + 12] = _mm512_shuffle_f32x4(high, high_2, 0xDD);
  }
  KDA_UNROLL
  for (int c = 0; c < 16; ++c) {
    if (c < n_columns) _mm512_storeu_ps(to + c * kPanelColumns, b[c]);
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
  const int64_t row = panels(args.dim_nope) * kPanelColumns;
  expand_panels(args, latents, n_keys, args.up, panels(args.dim_nope), scratch.key_rows, row, kPanelColumns);
  expand_panels(args, latents, n_keys, args.up + args.rank * row, panels(args.dim_v), scratch.values, kPanelColumns,
                kMlaTileKeys * kPanelColumns);
  const auto transpose = [&](const float* from, int64_t stride, int64_t n_rows, int64_t n_columns, float* to) {
    for (int64_t c = 0; c < n_columns; c += 16) {
      transpose_16x16(from + c, stride, n_rows, n_columns - c, to + c * kPanelColumns);
    }
  };
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
  const __m512 scale = _mm512_set1_ps(args.scale);
  for_panel_groups(panels(n_keys), [&](int64_t panel, auto n_columns) {
    for_row_groups(n_rows, [&](int64_t r, auto n) {
      __m512 sum[n.kValue][n_columns.kValue];
      multiply(args.q + (row + r) * args.q_stride, args.q_stride, scratch.keys + panel * dim_qk * kPanelColumns,
               dim_qk * kPanelColumns, dim_qk, sum);
      KDA_UNROLL
      for (int i = 0; i < n.kValue; ++i) {
        KDA_UNROLL
        for (int v = 0; v < n_columns.kValue; ++v) {
          _mm512_storeu_ps(scratch.scores + (r + i) * kMlaTileKeys + (panel + v) * kPanelColumns,
                           _mm512_mul_ps(sum[i][v], scale));
        }
      }
    });
  });
  const bool first = begin == 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    scratch.shrink[r] =
        weigh_row(scratch.scores + r * kMlaTileKeys, smaller(kMlaTileKeys, n_seen + r), first, args.states[row + r]);
  }
  for_panel_groups(panels(args.dim_v), [&](int64_t panel, auto n_columns) {
    for_row_groups(n_rows, [&](int64_t r, auto n) {
      __m512 sum[n.kValue][n_columns.kValue];
      multiply(scratch.scores + r * kMlaTileKeys, kMlaTileKeys, scratch.values + panel * kMlaTileKeys * kPanelColumns,
               kMlaTileKeys * kPanelColumns, smaller(kMlaTileKeys, n_seen + r + n.kValue - 1), sum);
      KDA_UNROLL
      for (int i = 0; i < n.kValue; ++i) {
        const __m512 shrink = _mm512_set1_ps(scratch.shrink[r + i]);
        KDA_UNROLL
        for (int v = 0; v < n_columns.kValue; ++v) {
          const int64_t column = (panel + v) * kPanelColumns;
          const __mmask16 mask = first_lanes(args.dim_v - column);
          float* out = args.out + (row + r + i) * args.out_stride + column;
          __m512 total = sum[i][v];
          if (!first) total = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, out), shrink, total);
          _mm512_mask_storeu_ps(out, mask, total);
        }
      }
    });
  });
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
    const __m512 inverse = _mm512_set1_ps(1.0F / args.states[r].sum);
    float* out = args.out + r * args.out_stride;
    for (int64_t i = 0; i < args.dim_v; i += 16) {
      const __mmask16 mask = first_lanes(args.dim_v - i);
      _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, out + i), inverse));
    }
  }
}

}  // namespace kda::avx512
