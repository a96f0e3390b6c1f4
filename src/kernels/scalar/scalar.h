// The portable kernels, by name. Each is the definition that the other instruction sets are tested against.
#pragma once

#include "kernels/kernel_table.h"

namespace kda::scalar {

void matmul_f32(const MatmulArgs& args);     // F32 weights at any address, fp32 activations; needs no scratch
void set_int8_products(KernelTable& table);  // the entries of table.matmul that take int8 activations

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

}  // namespace kda::scalar
