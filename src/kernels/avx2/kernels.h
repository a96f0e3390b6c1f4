// The AVX2 kernels, for the table in avx2_table.cpp. Callable only where the processor has AVX2, FMA and F16C.
#pragma once

#include "kernels/kernel_args.h"

namespace kda::avx2 {

void matmul_f32(const MatmulArgs& args);  // these three use no scratch
void matmul_f16(const MatmulArgs& args);
void matmul_bf16(const MatmulArgs& args);

// int8 activations in blocks of 32
void matmul_q4_0(const MatmulArgs& args);
void matmul_q4_1(const MatmulArgs& args);
void matmul_q5_0(const MatmulArgs& args);
void matmul_q5_1(const MatmulArgs& args);
void matmul_q8_0(const MatmulArgs& args);
void matmul_iq4_nl(const MatmulArgs& args);
void matmul_mxfp4(const MatmulArgs& args);

// int8 activations in blocks of 256
void matmul_q2_k(const MatmulArgs& args);
void matmul_q3_k(const MatmulArgs& args);
void matmul_q4_k(const MatmulArgs& args);
void matmul_q5_k(const MatmulArgs& args);
void matmul_q6_k(const MatmulArgs& args);
void matmul_iq4_xs(const MatmulArgs& args);

void quantize_block32(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums);
void quantize_block256(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums);

void kda_head(const KdaHeadArgs& args);
void mla_attend(const MlaAttendArgs& args);
void mla_head(const MlaHeadArgs& args);

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out);
void silu_mul(const float* gate, const float* up, int64_t n, float* out);
void silu(float* x, int64_t n);
void sigmoid(const float* x, int64_t n, float* out);
void axpy(float a, const float* x, int64_t n, float* y);
void conv_silu(const float* const* rows, const float* w, int64_t w_stride, int64_t taps, int64_t n, float* out);
void scaled_softplus(const float* x, const float* bias, float a, int64_t n, float* out);

}  // namespace kda::avx2
