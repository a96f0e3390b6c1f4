// Absorbed attention over one latent cache in one pass, a tile of keys at a time (the softmax: avx2/online_softmax.h).
// The query rows share a tile while it is in the cache: scores of four rows and four keys, and values of four rows and
// 64 columns, are summed in registers.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/online_softmax.h"
#include "kernels/avx512/simd.h"

namespace kda::avx512 {
namespace {

constexpr int64_t kKeyBlock = 8;  // keys that stay in the first-level cache while the queries pass

struct Tile {
  const MlaAttendArgs& args;
  const float* keys;  // first key of the tile
  int64_t begin;      // its position
  int64_t n_keys;     // keys in the tile, in [1, kMlaTileKeys]
  float* scores;      // [n_rows, kMlaTileKeys]; then the weights of the softmax
  float* shrink;      // [n_rows] by which the tile scales what came before

  bool first() const { return begin == args.key_begin; }

  /// Keys of the tile that a row sees, in [0, kMlaTileKeys].
  int64_t visible(int64_t row) const {
    const int64_t n = smaller(n_keys, args.n_keys[row] - begin);
    return n > 0 ? n : 0;
  }
};

/// scores[row + t][key .. key + 3] for kT rows; a key that is not there repeats the last one.
template <int kT>
KDA_INLINE void score_tile(const Tile& tile, int64_t row, int64_t key) {
  const MlaAttendArgs& args = tile.args;
  const float* keys[4];
  const float* q[kT];
  __m512 sum[kT][4];
  KDA_UNROLL
  for (int j = 0; j < 4; ++j) keys[j] = tile.keys + smaller(key + j, tile.n_keys - 1) * args.dim_qk;
  KDA_UNROLL
  for (int t = 0; t < kT; ++t) {
    q[t] = args.q[row + t];
    KDA_UNROLL
    for (int j = 0; j < 4; ++j) sum[t][j] = _mm512_setzero_ps();
  }
  const auto add = [&](auto load) {
    __m512 a[kT];
    KDA_UNROLL
    for (int t = 0; t < kT; ++t) a[t] = load(q[t]);
    KDA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const __m512 b = load(keys[j]);
      KDA_UNROLL
      for (int t = 0; t < kT; ++t) sum[t][j] = _mm512_fmadd_ps(a[t], b, sum[t][j]);
    }
  };
  int64_t i = 0;
  for (; i + 16 <= args.dim_qk; i += 16) add([i](const float* p) { return _mm512_loadu_ps(p + i); });
  if (i < args.dim_qk) {
    const __mmask16 mask = first_lanes(args.dim_qk - i);
    add([i, mask](const float* p) { return _mm512_maskz_loadu_ps(mask, p + i); });
  }
  const __m128 scale = _mm_set1_ps(args.scale);
  KDA_UNROLL
  for (int t = 0; t < kT; ++t) {
    _mm_storeu_ps(tile.scores + (row + t) * kMlaTileKeys + key,
                  _mm_mul_ps(sums_of_lanes(sum[t][0], sum[t][1], sum[t][2], sum[t][3]), scale));
  }
}

void score(const Tile& tile) {
  const int64_t n_rows = tile.args.n_rows;
  for (int64_t block = 0; block < tile.n_keys; block += kKeyBlock) {
    const int64_t end = smaller(block + kKeyBlock, tile.n_keys);
    int64_t row = 0;
    for (; row + 4 <= n_rows; row += 4) {
      for (int64_t key = block; key < end; key += 4) score_tile<4>(tile, row, key);
    }
    for (; row < n_rows; ++row) {
      for (int64_t key = block; key < end; key += 4) score_tile<1>(tile, row, key);
    }
  }
}

/// ctx = ctx * shrink + weights * values, for kRows rows and 16 * kVectors columns from column on; a single vector
/// has only the columns of the mask. The first n keys.
template <int kRows, int kVectors>
KDA_INLINE void add_values(const Tile& tile, int64_t row, int64_t column, __mmask16 last, int64_t n) {
  const MlaAttendArgs& args = tile.args;
  const auto load = [&](const float* p) { return kVectors > 1 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(last, p); };
  const float* weights = tile.scores + row * kMlaTileKeys;
  const float* values = tile.keys + column;
  __m512 sum[kRows][kVectors];
  KDA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KDA_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t key = 0; key < n; ++key, values += args.dim_qk) {
    __m512 value[kVectors];
    KDA_UNROLL
    for (int v = 0; v < kVectors; ++v) value[v] = load(values + 16 * v);
    KDA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 weight = _mm512_set1_ps(weights[r * kMlaTileKeys + key]);
      KDA_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(weight, value[v], sum[r][v]);
    }
  }
  KDA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (tile.visible(row + r) == 0) continue;  // ended in an earlier tile
    float* ctx = args.ctx[row + r] + column;
    const __m512 shrink = _mm512_set1_ps(tile.shrink[row + r]);
    KDA_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      __m512 total = sum[r][v];
      if (!tile.first()) total = _mm512_fmadd_ps(load(ctx + 16 * v), shrink, total);
      if (kVectors > 1) {
        _mm512_storeu_ps(ctx + 16 * v, total);
      } else {
        _mm512_mask_storeu_ps(ctx, last, total);
      }
    }
  }
}

/// All rows for 16 * kVectors columns.
template <int kVectors>
void add_columns(const Tile& tile, int64_t column, __mmask16 last) {
  const int64_t n_rows = tile.args.n_rows;
  int64_t row = 0;
  for (; row + 4 <= n_rows; row += 4) {
    int64_t n = 0;
    for (int64_t r = row; r < row + 4; ++r) n = tile.visible(r) > n ? tile.visible(r) : n;
    if (n > 0) add_values<4, kVectors>(tile, row, column, last, n);
  }
  for (; row < n_rows; ++row) {
    if (tile.visible(row) > 0) add_values<1, kVectors>(tile, row, column, last, tile.visible(row));
  }
}

}  // namespace

void mla_attend(const MlaAttendArgs& args) {
  float* scores = args.scratch;
  float* shrink = scores + args.n_rows * kMlaTileKeys;
  int64_t end = 0;  // of the keys that any row sees
  for (int64_t r = 0; r < args.n_rows; ++r) end = args.n_keys[r] > end ? args.n_keys[r] : end;
  end = smaller(end, args.key_end);

  for (int64_t begin = args.key_begin; begin < end; begin += kMlaTileKeys) {
    const Tile tile{args, args.cache + begin * args.dim_qk, begin, smaller(kMlaTileKeys, end - begin), scores, shrink};
    score(tile);
    for (int64_t r = 0; r < args.n_rows; ++r) {
      const int64_t n = tile.visible(r);
      if (n > 0) shrink[r] = weigh_row(scores + r * kMlaTileKeys, n, tile.first(), args.states[r]);
    }
    int64_t column = 0;
    for (; column + 64 <= args.dim_v; column += 64) add_columns<4>(tile, column, 0xFFFF);
    for (; column < args.dim_v; column += 16) add_columns<1>(tile, column, first_lanes(args.dim_v - column));
  }
}

}  // namespace kda::avx512
