// What a kernel is given: plain structs and function types.
//
// Kernel files are compiled with flags of their own. They include this header, quant/blocks.h and the intrinsics only,
// so that no inline function compiled for a newer processor can be linked into baseline code: keep functions and the
// standard library's containers out of here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kda {

/// Form in which a matrix product takes its activations.
enum class ActFormat : uint8_t {
  kF32,         // as computed; for F32, F16, BF16 weights and for types without an integer kernel
  kQ8Block32,   // int8 codes with a float scale for every 32 elements
  kQ8Block256,  // int8 codes with a float scale for every 256 elements
};

/// Largest magnitude that still counts as zero in a block of activations is just below: 127 / x must stay finite.
inline constexpr float kSmallestQuantized = 0x1p-100F;

/// Rows of activations [n, k], each row contiguous. Only the members of the chosen format need be set.
/// A quantised row is x[i] ~ scale[i / block] * code[i], |code| <= 127. In float: scale = max|x| / 127, code = x * (127
/// / max) rounded to nearest even. A block with max < kSmallestQuantized has scale and codes 0. A block that holds a
/// NaN or an infinity has such a scale and codes 0, so that products with it are NaN.
struct ActView {
  const float* f32 = nullptr;
  int64_t f32_stride = 0;         // floats from a row to the next
  const int8_t* codes = nullptr;  // [n, k]
  const float* scales = nullptr;  // [n, k / 32] or [n, k / 256]
  const int16_t* sums = nullptr;  // [n, k / 16]: sum of each run of 16 codes
};

/// y[y_row(i), r] = dot(w[r], x[x_row(i)]) for i in [0, n) and r in [row_begin, row_end).
/// For given r and i the result has the same bits whatever n, row_begin, row_end and the neighbours are.
/// Integer kernels: the total of a block is exact in int32 and enters the sum through one float multiply-add a block,
/// in order of k (types with a minimum: a second one for the minimum), so that sets differ by the rounding of those
/// only.
struct MatmulArgs {
  const std::byte* w = nullptr;  // first byte of row 0
  int64_t w_row_bytes = 0;
  int64_t k = 0;  // columns, a multiple of the type's block length
  int64_t row_begin = 0;
  int64_t row_end = 0;
  ActView x;
  int64_t n = 0;                    // activation rows to multiply
  const int32_t* x_rows = nullptr;  // [n] which row of x, or nullptr for 0..n-1
  const int32_t* y_rows = nullptr;  // [n] which row of y, or nullptr for 0..n-1
  float* y = nullptr;
  int64_t y_stride = 0;          // floats from a row of y to the next
  std::byte* scratch = nullptr;  // matmul_scratch_bytes(k), 64-byte aligned, one a thread
};
using MatmulFn = void (*)(const MatmulArgs&);

/// One token row to int8: codes [k], scales [k / block], sums [k / 16]. k is a multiple of the block.
using QuantizeActFn = void (*)(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums);

/// Largest KdaHeadArgs::dim_k: kernels keep rows of that many floats on the stack.
inline constexpr int64_t kMaxKdaDimK = 4096;

/// One head of a KDA layer over T tokens of one sequence; see layers/kda.cpp for the equations. All fp32.
/// The result has the same bits however a run of tokens is cut into calls.
struct KdaHeadArgs {
  int64_t n_tokens = 0;
  int64_t dim_k = 0;                 // key channels of the head, in [1, kMaxKdaDimK]
  int64_t dim_v = 0;                 // value channels of the head
  int64_t stride_qk = 0;             // floats from a token's row to the next in q, k, log_decay
  int64_t stride_v = 0;              // ... in v and o
  const float* q = nullptr;          // [T, dim_k], after convolution, SiLU, L2 norm and scale
  const float* k = nullptr;          // [T, dim_k], after convolution, SiLU, L2 norm
  const float* v = nullptr;          // [T, dim_v], after convolution, SiLU
  const float* log_decay = nullptr;  // [T, dim_k], <= 0
  const float* beta = nullptr;       // beta[t * stride_beta], in (0, 1)
  int64_t stride_beta = 0;
  float* state = nullptr;  // [dim_v, dim_k], updated in place
  float* o = nullptr;      // [T, dim_v]
};
using KdaHeadFn = void (*)(const KdaHeadArgs&);

/// Softmax over some keys of one query row: the largest score and the sum of exp(score - max).
struct SoftmaxState {
  float max = 0;
  float sum = 0;
};

/// Keys a tile of attention: tile t holds keys [t * kMlaTileKeys, (t + 1) * kMlaTileKeys).
inline constexpr int64_t kMlaTileKeys = 64;

/// Absorbed attention of some query rows over a range of the keys of one latent cache: for each row r that sees any
///   state[r] = softmax state over keys [key_begin, min(key_end, n_keys[r])) of scale * (q[r] . cache[key])
///   ctx[r]   = sum exp(score - max) * cache[key][0:dim_v]
/// The other rows are left alone. A row's bits do not depend on the other rows, nor on key_end beyond n_keys[r].
struct MlaAttendArgs {
  int64_t n_rows = 0;
  int64_t dim_qk = 0;  // latent + positional part
  int64_t dim_v = 0;   // latent part, the first dim_v of a cache row
  float scale = 0;
  const float* const* q = nullptr;  // [n_rows] -> [dim_qk]
  float* const* ctx = nullptr;      // [n_rows] -> [dim_v]
  SoftmaxState* states = nullptr;   // [n_rows]
  const int64_t* n_keys = nullptr;  // [n_rows]
  const float* cache = nullptr;     // [keys, dim_qk]
  int64_t key_begin = 0;            // a multiple of kMlaTileKeys
  int64_t key_end = 0;
  float* scratch = nullptr;  // mla_scratch_floats(n_rows)
};
using MlaAttendFn = void (*)(const MlaAttendArgs&);

/// Columns of a panel of MlaHeadArgs::up.
inline constexpr int64_t kPanelColumns = 16;

/// One head of expanded attention over a latent cache, for consecutive tokens. With K = cache[:, 0:rank] *
/// up[0:dim_nope] and V = cache[:, 0:rank] * up[v_begin:v_begin + dim_v], row r, which sees keys 0..first_position + r:
///   p = softmax of scale * (q[r][0:dim_nope] . K[key] + q[r][dim_nope:] . cache[key][rank:]),   out[r] = sum p[key]
///   V[key]
/// Tiles of keys at fixed absolute positions are expanded once and serve all rows; a row's bits depend on its position
/// only.
struct MlaHeadArgs {
  int64_t n_rows = 0;
  int64_t first_position = 0;
  int64_t dim_nope = 0;
  int64_t dim_pe = 0;  // positional part
  int64_t dim_v = 0;
  int64_t rank = 0;
  float scale = 0;
  const float* q = nullptr;  // [n_rows, dim_nope + dim_pe]
  int64_t q_stride = 0;
  const float* cache = nullptr;  // [first_position + n_rows, rank + dim_pe]
  /// [panels, rank, kPanelColumns]: dim_nope columns of keys, zeros up to a whole panel, then the same for dim_v.
  const float* up = nullptr;
  float* out = nullptr;  // [n_rows, dim_v]
  int64_t out_stride = 0;
  SoftmaxState* states = nullptr;  // [n_rows], to work in
  float* scratch = nullptr;        // mla_head_scratch_floats(dim_nope, dim_pe, dim_v), 64-byte aligned
};
using MlaHeadFn = void (*)(const MlaHeadArgs&);

/// Query rows whose scores MlaHeadFn holds at a time.
inline constexpr int64_t kMlaHeadRows = 48;

}  // namespace kda
