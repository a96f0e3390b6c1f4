// F32, F16 and BF16 weights times fp32 activations, as in avx2/matmul_f32.cpp: for each row and token
//   y = sum over chunks c of k, in order, of dot(w[c], x[c])
// A chunk has kChunk columns, and its dot product is summed in 16 lanes: lane l takes the columns i with i % 16 = l in
// order, whatever the number of tokens is.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/simd.h"

namespace kda::avx512 {
namespace {

constexpr int64_t kChunk = 512;   // columns
constexpr int64_t kTokens = 192;  // of a block

/// How weights are read as floats: 16 from p, or the first n of 16 with zeros after them.
struct F32Values {
  static constexpr int64_t kBytes = 4;
  static KDA_INLINE __m512 load(const std::byte* p) { return _mm512_loadu_ps(p); }
  static KDA_INLINE __m512 load_first(const std::byte* p, int64_t n) {
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
  }
};

struct F16Values {
  static constexpr int64_t kBytes = 2;
  static KDA_INLINE __m512 load(const std::byte* p) { return _mm512_cvtph_ps(avx2::load_256(p)); }
  static KDA_INLINE __m512 load_first(const std::byte* p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
  }
};

struct BF16Values {
  static constexpr int64_t kBytes = 2;
  static KDA_INLINE __m512 widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static KDA_INLINE __m512 load(const std::byte* p) { return widen(avx2::load_256(p)); }
  static KDA_INLINE __m512 load_first(const std::byte* p, int64_t n) {
    return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p));
  }
};

/// Columns [begin, begin + n) of rows [row, row + n_rows), n_rows <= 4, and kT tokens from token on: set in y for the
/// first chunk, added to it after that.
template <typename Values, int kT>
KDA_INLINE void multiply_tile(const MatmulArgs& args, int64_t row, int64_t n_rows, int64_t token, int64_t begin,
                              int64_t n) {
  const std::byte* w[4];
  const float* x[kT];
  __m512 sum[kT][4];
  KDA_UNROLL
  for (int r = 0; r < 4; ++r) {  // a row that is not there repeats the last one
    w[r] = args.w + (row + smaller(r, n_rows - 1)) * args.w_row_bytes + begin * Values::kBytes;
  }
  KDA_UNROLL
  for (int t = 0; t < kT; ++t) {
    x[t] = args.x.f32 + x_row_of(args, token + t) * args.x.f32_stride + begin;
    KDA_UNROLL
    for (int r = 0; r < 4; ++r) sum[t][r] = _mm512_setzero_ps();
  }
  const auto add = [&](auto load_w, auto load_x) {
    __m512 b[4];
    KDA_UNROLL
    for (int r = 0; r < 4; ++r) b[r] = load_w(w[r]);
    KDA_UNROLL
    for (int t = 0; t < kT; ++t) {
      const __m512 a = load_x(x[t]);
      KDA_UNROLL
      for (int r = 0; r < 4; ++r) sum[t][r] = _mm512_fmadd_ps(a, b[r], sum[t][r]);
    }
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    add([i](const std::byte* p) { return Values::load(p + i * Values::kBytes); },
        [i](const float* p) { return _mm512_loadu_ps(p + i); });
  }
  if (i < n) {
    add([i, n](const std::byte* p) { return Values::load_first(p + i * Values::kBytes, n - i); },
        [i, n](const float* p) { return _mm512_maskz_loadu_ps(first_lanes(n - i), p + i); });
  }
  const auto mask = static_cast<__mmask8>(first_lanes(n_rows) & 0xF);
  KDA_UNROLL
  for (int t = 0; t < kT; ++t) {
    float* y = args.y + y_row_of(args, token + t) * args.y_stride + row;
    __m128 products = sums_of_lanes(sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
    if (begin != 0) products = _mm_add_ps(_mm_maskz_loadu_ps(mask, y), products);
    _mm_mask_storeu_ps(y, mask, products);
  }
}

/// Rows [group_begin, group_end) and kT tokens.
template <typename Values, int kT>
KDA_INLINE void multiply_rows(const MatmulArgs& args, int64_t group_begin, int64_t group_end, int64_t token,
                              int64_t begin, int64_t n) {
  for (int64_t row = group_begin; row < group_end; row += 4) {
    multiply_tile<Values, kT>(args, row, smaller(4, group_end - row), token, begin, n);
  }
}

/// Rows [row_begin, row_end) and tokens [token, token_end).
template <typename Values>
KDA_INLINE void multiply_tokens(const MatmulArgs& args, int64_t row_begin, int64_t row_end, int64_t token,
                                int64_t token_end, int64_t begin, int64_t n) {
  for (; token + 6 <= token_end; token += 6) multiply_rows<Values, 6>(args, row_begin, row_end, token, begin, n);
  if (token + 3 <= token_end) {
    multiply_rows<Values, 3>(args, row_begin, row_end, token, begin, n);
    token += 3;
  }
  if (token + 2 <= token_end) {
    multiply_rows<Values, 2>(args, row_begin, row_end, token, begin, n);
    token += 2;
  }
  if (token < token_end) multiply_rows<Values, 1>(args, row_begin, row_end, token, begin, n);
}

template <typename Values>
KDA_INLINE void matmul(const MatmulArgs& args) {
  if (args.n <= 6) {  // the weights are read once anyway, and whole rows in turn suit the prefetcher
    for (int64_t row = args.row_begin; row < args.row_end; row += 4) {
      for (int64_t begin = 0; begin < args.k; begin += kChunk) {
        multiply_tokens<Values>(args, row, smaller(row + 4, args.row_end), 0, args.n, begin,
                                smaller(kChunk, args.k - begin));
      }
    }
    return;
  }
  // A chunk of a block of tokens stays in the second-level cache for all rows, one of 16 rows in the first for all of
  // these tokens.
  for (int64_t token = 0; token < args.n; token += kTokens) {
    const int64_t token_end = smaller(token + kTokens, args.n);
    for (int64_t begin = 0; begin < args.k; begin += kChunk) {
      for (int64_t row = args.row_begin; row < args.row_end; row += 16) {
        multiply_tokens<Values>(args, row, smaller(row + 16, args.row_end), token, token_end, begin,
                                smaller(kChunk, args.k - begin));
      }
    }
  }
}

}  // namespace

void matmul_f32(const MatmulArgs& args) { matmul<F32Values>(args); }
void matmul_f16(const MatmulArgs& args) { matmul<F16Values>(args); }
void matmul_bf16(const MatmulArgs& args) { matmul<BF16Values>(args); }

}  // namespace kda::avx512
