// The AVX-512 kernels, for the table in avx512_table.cpp. Callable only where the processor has AVX-512 F, BW, DQ, VL
// and VNNI.
#pragma once

#include "kernels/kernel_args.h"

namespace kda::avx512 {

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

}  // namespace kda::avx512
