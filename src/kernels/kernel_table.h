// The seam between ops and instruction sets: a table of function pointers a set, plain data in and out.
#pragma once

#include <cstdint>

#include "kernels/kernel_args.h"
#include "quant/tensor_type.h"

namespace kda {

struct MatmulKernel {
  MatmulFn fn = nullptr;  // nullptr: the type cannot be multiplied with
  ActFormat format = ActFormat::kF32;
};

/// Bytes of MatmulArgs::scratch for any kernel of any set and a product over k columns: 16 rows of floats and a margin.
[[nodiscard]] constexpr int64_t matmul_scratch_bytes(int64_t k) noexcept { return k * 64 + 4096; }

/// Floats of MlaAttendArgs::scratch.
[[nodiscard]] constexpr int64_t mla_scratch_floats(int64_t n_rows) noexcept { return n_rows * (kMlaTileKeys + 1); }

/// Panels that hold n columns.
[[nodiscard]] constexpr int64_t panels(int64_t n) noexcept { return (n + kPanelColumns - 1) / kPanelColumns; }
/// Floats of MlaHeadArgs::up.
[[nodiscard]] constexpr int64_t mla_up_floats(int64_t dim_nope, int64_t dim_v, int64_t rank) noexcept {
  return (panels(dim_nope) + panels(dim_v)) * kPanelColumns * rank;
}
/// Floats of MlaHeadArgs::scratch: a tile's keys by row and by column, its values, scores and factors of rows.
[[nodiscard]] constexpr int64_t mla_head_scratch_floats(int64_t dim_nope, int64_t dim_pe, int64_t dim_v) noexcept {
  return kMlaTileKeys * (panels(dim_nope) * kPanelColumns + dim_nope + dim_pe + panels(dim_v) * kPanelColumns) +
         kMlaHeadRows * (kMlaTileKeys + 1);
}

/// Everything one instruction set offers. Filled once; never changes. All functions are thread-safe.
struct KernelTable {
  const char* name = nullptr;                  // "scalar", "avx2", "avx512"
  MatmulKernel matmul[kTensorTypeCount] = {};  // by type number: the fastest product
  MatmulFn matmul_f32[kTensorTypeCount] = {};  // by type number: the product with fp32 activations, every weight type
  QuantizeActFn quantize_block32 = nullptr;
  QuantizeActFn quantize_block256 = nullptr;
  KdaHeadFn kda_head = nullptr;
  MlaAttendFn mla_attend = nullptr;
  MlaHeadFn mla_head = nullptr;
  /// out[i] = x[i] * w[i] / sqrt(mean(x^2) + eps), n elements; the mean is taken in a fixed order. out may be x.
  void (*rms_norm)(const float* x, const float* w, float eps, int64_t n, float* out) = nullptr;
  // Of one element each: the bits of a result depend on its operands only, not on its place or on n.
  /// out[i] = silu(gate[i]) * up[i]; out may be gate.
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out) = nullptr;
  /// x[i] = silu(x[i])
  void (*silu)(float* x, int64_t n) = nullptr;
  /// out[i] = sigmoid(x[i])
  void (*sigmoid)(const float* x, int64_t n, float* out) = nullptr;
  /// y[i] += a * x[i]
  void (*axpy)(float a, const float* x, int64_t n, float* y) = nullptr;
  /// out[i] = silu(sum over j < taps, in order, of w[j * w_stride + i] * rows[j][i]), taps >= 1
  void (*conv_silu)(const float* const* rows, const float* w, int64_t w_stride, int64_t taps, int64_t n,
                    float* out) = nullptr;
  /// out[i] = a * softplus(x[i] + bias[i]), softplus(z) = log(1 + exp(z)), within a few units in the last place.
  void (*scaled_softplus)(const float* x, const float* bias, float a, int64_t n, float* out) = nullptr;
};

/// The set that every machine has.
[[nodiscard]] const KernelTable& scalar_kernels() noexcept;
/// nullptr where the program was built for another architecture. The caller checks the processor.
[[nodiscard]] const KernelTable* avx2_kernels() noexcept;
[[nodiscard]] const KernelTable* avx512_kernels() noexcept;

/// The set by name ("scalar", "avx2", "avx512"), or the best one this processor runs for "" and "auto".
/// Throws Error(kUnsupported) for a set that is unknown, not built in or not supported by the processor.
[[nodiscard]] const KernelTable& select_kernels(const char* name);

}  // namespace kda
