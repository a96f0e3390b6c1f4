// The table of the AVX2 kernels. Compiled with baseline flags: only the files in avx2/ may use newer instructions.
#include "kernels/kernel_table.h"

#if defined(__x86_64__)

#include "kernels/avx2/kernels.h"
#include "kernels/matmul_by_rows.h"

namespace kda {

const KernelTable* avx2_kernels() noexcept {
  static const KernelTable filled = [] {
    KernelTable table;
    table.name = "avx2";
    fill_matmul_f32<avx2::matmul_f32>(table);
    table.matmul_f32[static_cast<uint32_t>(TensorType::kF16)] = avx2::matmul_f16;
    table.matmul_f32[static_cast<uint32_t>(TensorType::kBF16)] = avx2::matmul_bf16;
    for (uint32_t type = 0; type < kTensorTypeCount; ++type) table.matmul[type].fn = table.matmul_f32[type];
    const auto set = [&table](TensorType type, MatmulFn fn, ActFormat format) {
      table.matmul[static_cast<uint32_t>(type)] = {fn, format};
    };
    set(TensorType::kQ4_0, avx2::matmul_q4_0, ActFormat::kQ8Block32);
    set(TensorType::kQ4_1, avx2::matmul_q4_1, ActFormat::kQ8Block32);
    set(TensorType::kQ5_0, avx2::matmul_q5_0, ActFormat::kQ8Block32);
    set(TensorType::kQ5_1, avx2::matmul_q5_1, ActFormat::kQ8Block32);
    set(TensorType::kQ8_0, avx2::matmul_q8_0, ActFormat::kQ8Block32);
    set(TensorType::kIQ4_NL, avx2::matmul_iq4_nl, ActFormat::kQ8Block32);
    set(TensorType::kMXFP4, avx2::matmul_mxfp4, ActFormat::kQ8Block32);
    set(TensorType::kQ2_K, avx2::matmul_q2_k, ActFormat::kQ8Block256);
    set(TensorType::kQ3_K, avx2::matmul_q3_k, ActFormat::kQ8Block256);
    set(TensorType::kQ4_K, avx2::matmul_q4_k, ActFormat::kQ8Block256);
    set(TensorType::kQ5_K, avx2::matmul_q5_k, ActFormat::kQ8Block256);
    set(TensorType::kQ6_K, avx2::matmul_q6_k, ActFormat::kQ8Block256);
    set(TensorType::kIQ4_XS, avx2::matmul_iq4_xs, ActFormat::kQ8Block256);
    table.quantize_block32 = avx2::quantize_block32;
    table.quantize_block256 = avx2::quantize_block256;
    table.kda_head = avx2::kda_head;
    table.mla_attend = avx2::mla_attend;
    table.mla_head = avx2::mla_head;
    table.rms_norm = avx2::rms_norm;
    table.silu_mul = avx2::silu_mul;
    table.silu = avx2::silu;
    table.sigmoid = avx2::sigmoid;
    table.axpy = avx2::axpy;
    table.conv_silu = avx2::conv_silu;
    table.scaled_softplus = avx2::scaled_softplus;
    return table;
  }();
  return &filled;
}

}  // namespace kda

#else

namespace kda {

const KernelTable* avx2_kernels() noexcept { return nullptr; }

}  // namespace kda

#endif
