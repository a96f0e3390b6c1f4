#include "kernels/scalar/dot.h"
#include "kernels/scalar/scalar.h"

namespace kda::scalar {

void matmul_f32(const MatmulArgs& args) {
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const std::byte* w = args.w + r * args.w_row_bytes;
    for (int64_t i = 0; i < args.n; ++i) {
      const int64_t x_row = args.x_rows != nullptr ? args.x_rows[i] : i;
      const int64_t y_row = args.y_rows != nullptr ? args.y_rows[i] : i;
      args.y[y_row * args.y_stride + r] = dot(w, args.x.f32 + x_row * args.x.f32_stride, args.k);
    }
  }
}

}  // namespace kda::scalar
