#include "base/half.h"
#include "kernels/scalar/scalar.h"
#include "quant/blocks.h"

namespace kda::scalar {

void matmul_q8_0(const MatmulArgs& args) {
  const int64_t n_blocks = args.k / 32;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const auto* blocks = reinterpret_cast<const BlockQ8_0*>(args.w + r * args.w_row_bytes);
    for (int64_t i = 0; i < args.n; ++i) {
      const int64_t x_row = args.x_rows != nullptr ? args.x_rows[i] : i;
      const int64_t y_row = args.y_rows != nullptr ? args.y_rows[i] : i;
      const int8_t* codes = args.x.codes + x_row * args.k;
      const float* scales = args.x.scales + x_row * n_blocks;
      float sum = 0;
      for (int64_t b = 0; b < n_blocks; ++b) {
        int32_t total = 0;
        for (int64_t j = 0; j < 32; ++j) total += blocks[b].qs[j] * codes[b * 32 + j];
        sum += f16_to_float(blocks[b].d) * scales[b] * static_cast<float>(total);
      }
      args.y[y_row * args.y_stride + r] = sum;
    }
  }
}

}  // namespace kda::scalar
