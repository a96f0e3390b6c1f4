// F32, F16 and BF16 weights times fp32 activations. For each row and token:
//   y = sum over chunks c of k, in order, of dot(w[c], x[c])
// A chunk has kChunk columns, and its dot product is summed in 8 lanes (dot_tile.h). The short chains keep the rounding
// error of a product over thousands of columns near that of its last addition.
#include "kernels/avx2/dot_tile.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"

namespace kda::avx2 {
namespace {

constexpr int64_t kChunk = 512;  // columns

/// Adds the products of 4 rows and one token to y (or sets y, for the first chunk); only the first n_rows count.
KDA_INLINE void add_to_y(float* y, __m128 products, int64_t n_rows, bool first) {
  if (n_rows >= 4) {
    _mm_storeu_ps(y, first ? products : _mm_add_ps(_mm_loadu_ps(y), products));
    return;
  }
  float p[4];
  _mm_storeu_ps(p, products);
  for (int64_t r = 0; r < n_rows; ++r) y[r] = first ? p[r] : y[r] + p[r];
}

/// Columns [begin, begin + n) of rows [row, row + n_rows), n_rows <= 4, and kT tokens from token on.
template <typename Values, int kT>
KDA_INLINE void multiply_tile(const MatmulArgs& args, int64_t row, int64_t n_rows, int64_t token, int64_t begin,
                              int64_t n) {
  const std::byte* w[4];
  const float* x[kT];
  __m128 products[kT];
  for (int64_t r = 0; r < 4; ++r) {  // a row that is not there repeats the last one
    w[r] = args.w + (row + smaller(r, n_rows - 1)) * args.w_row_bytes + begin * Values::kBytes;
  }
  for (int t = 0; t < kT; ++t) x[t] = args.x.f32 + x_row_of(args, token + t) * args.x.f32_stride + begin;
  dot_tile<Values, kT>(w, x, n, products);
  for (int t = 0; t < kT; ++t) {
    add_to_y(args.y + y_row_of(args, token + t) * args.y_stride + row, products[t], n_rows, begin == 0);
  }
}

template <typename Values>
KDA_INLINE void matmul(const MatmulArgs& args) {
  // With several tokens, 16 rows of a chunk stay in the first-level cache for all of them. With few, the weights are
  // read once anyway, and whole rows in turn suit the prefetcher better.
  const int64_t group = args.n > 3 ? 16 : 4;
  for (int64_t group_begin = args.row_begin; group_begin < args.row_end; group_begin += group) {
    const int64_t group_end = smaller(group_begin + group, args.row_end);
    for (int64_t begin = 0; begin < args.k; begin += kChunk) {
      const int64_t n = smaller(kChunk, args.k - begin);
      int64_t token = 0;
      while (token < args.n) {
        const int64_t n_tokens = smaller(3, args.n - token);
        for (int64_t row = group_begin; row < group_end; row += 4) {
          const int64_t n_rows = smaller(4, group_end - row);
          if (n_tokens == 3) {
            multiply_tile<Values, 3>(args, row, n_rows, token, begin, n);
          } else if (n_tokens == 2) {
            multiply_tile<Values, 2>(args, row, n_rows, token, begin, n);
          } else {
            multiply_tile<Values, 1>(args, row, n_rows, token, begin, n);
          }
        }
        token += n_tokens;
      }
    }
  }
}

}  // namespace

void matmul_f32(const MatmulArgs& args) { matmul<F32Values>(args); }
void matmul_f16(const MatmulArgs& args) { matmul<F16Values>(args); }
void matmul_bf16(const MatmulArgs& args) { matmul<BF16Values>(args); }

}  // namespace kda::avx2
