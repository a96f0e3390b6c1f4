// Absorbed attention over one latent cache in one pass, a tile of keys at a time (the softmax: online_softmax.h).
// The query rows share a tile while it is in the cache: scores of three rows and four keys, and values of four rows and
// 24 columns, are summed in registers.
#include "kernels/avx2/dot_tile.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/online_softmax.h"
#include "kernels/avx2/simd.h"

namespace kda::avx2 {
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
  const std::byte* w[4];
  const float* x[kT];
  __m128 dots[kT];
  for (int64_t j = 0; j < 4; ++j) {
    w[j] = reinterpret_cast<const std::byte*>(tile.keys + smaller(key + j, tile.n_keys - 1) * args.dim_qk);
  }
  for (int t = 0; t < kT; ++t) x[t] = args.q[row + t];
  dot_tile<F32Values, kT>(w, x, args.dim_qk, dots);
  const __m128 scale = _mm_set1_ps(args.scale);
  for (int t = 0; t < kT; ++t) {
    _mm_storeu_ps(tile.scores + (row + t) * kMlaTileKeys + key, _mm_mul_ps(dots[t], scale));
  }
}

void score(const Tile& tile) {
  const int64_t n_rows = tile.args.n_rows;
  for (int64_t block = 0; block < tile.n_keys; block += kKeyBlock) {
    const int64_t end = smaller(block + kKeyBlock, tile.n_keys);
    int64_t row = 0;
    for (; row + 3 <= n_rows; row += 3) {
      for (int64_t key = block; key < end; key += 4) score_tile<3>(tile, row, key);
    }
    for (; row < n_rows; ++row) {
      for (int64_t key = block; key < end; key += 4) score_tile<1>(tile, row, key);
    }
  }
}

/// ctx = ctx * shrink + weights * values, for kRows rows and 8 * kVectors columns from column on, the last vector
/// of them of last columns only. The first n keys.
template <int kRows, int kVectors>
KDA_INLINE void add_values(const Tile& tile, int64_t row, int64_t column, int64_t last, int64_t n) {
  const MlaAttendArgs& args = tile.args;
  const __m256i mask = first_lanes(last);
  const auto load = [&](const float* p, int v) {
    return v + 1 < kVectors || last == 8 ? _mm256_loadu_ps(p + 8 * v) : _mm256_maskload_ps(p + 8 * v, mask);
  };
  const float* weights = tile.scores + row * kMlaTileKeys;
  const float* values = tile.keys + column;
  __m256 sum[kRows][kVectors];
  for (auto& of_row : sum) {
    for (__m256& s : of_row) s = _mm256_setzero_ps();
  }
  for (int64_t key = 0; key < n; ++key, values += args.dim_qk) {
    __m256 value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = load(values, v);
    for (int r = 0; r < kRows; ++r) {
      const __m256 weight = _mm256_broadcast_ss(weights + r * kMlaTileKeys + key);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_fmadd_ps(weight, value[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (tile.visible(row + r) == 0) continue;  // ended in an earlier tile
    float* ctx = args.ctx[row + r] + column;
    const __m256 shrink = _mm256_set1_ps(tile.shrink[row + r]);
    for (int v = 0; v < kVectors; ++v) {
      __m256 total = sum[r][v];
      if (!tile.first()) total = _mm256_fmadd_ps(load(ctx, v), shrink, total);
      if (v + 1 < kVectors || last == 8) {
        _mm256_storeu_ps(ctx + 8 * v, total);
      } else {
        _mm256_maskstore_ps(ctx + 8 * v, mask, total);
      }
    }
  }
}

/// All rows for 8 * kVectors columns.
template <int kVectors>
void add_columns(const Tile& tile, int64_t column, int64_t last) {
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
    for (; column + 24 <= args.dim_v; column += 24) add_columns<3>(tile, column, 8);
    for (; column < args.dim_v; column += 8) add_columns<1>(tile, column, smaller(args.dim_v - column, 8));
  }
}

}  // namespace kda::avx2
