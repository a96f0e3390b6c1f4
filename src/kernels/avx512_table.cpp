// The table of the AVX-512 kernels. Compiled with baseline flags: only the files in avx512/ may use newer instructions.
#include "kernels/kernel_table.h"

#if defined(__x86_64__)

#include "kernels/avx512/kernels.h"
#include "kernels/matmul_by_rows.h"

namespace kda {

const KernelTable* avx512_kernels() noexcept {
  static const KernelTable filled = [] {
    KernelTable table = *avx2_kernels();  // what has no version of its own below
    table.name = "avx512";
    fill_matmul_f32<avx512::matmul_f32>(table);
    table.matmul_f32[static_cast<uint32_t>(TensorType::kF16)] = avx512::matmul_f16;
    table.matmul_f32[static_cast<uint32_t>(TensorType::kBF16)] = avx512::matmul_bf16;
    for (uint32_t type = 0; type < kTensorTypeCount; ++type) {
      if (table.matmul[type].format == ActFormat::kF32) table.matmul[type].fn = table.matmul_f32[type];
    }
    const auto set = [&table](TensorType type, MatmulFn fn) { table.matmul[static_cast<uint32_t>(type)].fn = fn; };
    set(TensorType::kQ4_0, avx512::matmul_q4_0);
    set(TensorType::kQ4_1, avx512::matmul_q4_1);
    set(TensorType::kQ5_0, avx512::matmul_q5_0);
    set(TensorType::kQ5_1, avx512::matmul_q5_1);
    set(TensorType::kQ8_0, avx512::matmul_q8_0);
    set(TensorType::kIQ4_NL, avx512::matmul_iq4_nl);
    set(TensorType::kMXFP4, avx512::matmul_mxfp4);
    set(TensorType::kQ2_K, avx512::matmul_q2_k);
    set(TensorType::kQ3_K, avx512::matmul_q3_k);
    set(TensorType::kQ4_K, avx512::matmul_q4_k);
    set(TensorType::kQ5_K, avx512::matmul_q5_k);
    set(TensorType::kQ6_K, avx512::matmul_q6_k);
    set(TensorType::kIQ4_XS, avx512::matmul_iq4_xs);
    table.mla_attend = avx512::mla_attend;
    table.mla_head = avx512::mla_head;
    table.kda_head = avx512::kda_head;
    table.rms_norm = avx512::rms_norm;
    table.silu_mul = avx512::silu_mul;
    table.silu = avx512::silu;
    table.sigmoid = avx512::sigmoid;
    table.axpy = avx512::axpy;
    table.conv_silu = avx512::conv_silu;
    table.scaled_softplus = avx512::scaled_softplus;
    return table;
  }();
  return &filled;
}

}  // namespace kda

#else

namespace kda {

const KernelTable* avx512_kernels() noexcept { return nullptr; }

}  // namespace kda

#endif
