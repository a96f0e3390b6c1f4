#include "ops/ops.h"

namespace kda {

namespace {

Activation::Form take_form(Arena& arena, int64_t max_rows, int64_t cols, int64_t block) {
  Activation::Form form;
  form.codes = arena.take<int8_t>(max_rows * cols);
  form.scales = arena.take<float>(max_rows * ((cols + block - 1) / block));
  form.sums = arena.take<int16_t>(max_rows * ((cols + 15) / 16));
  return form;
}

}  // namespace

Activation::Activation(Arena& arena, int64_t max_rows, int64_t cols)
    : block32_(take_form(arena, max_rows, cols, 32)), block256_(take_form(arena, max_rows, cols, 256)) {}

void Activation::set(const MatView& x) noexcept {
  x_ = x;
  block32_.ready = false;
  block256_.ready = false;
}

Routing::Routing(Arena& arena, int64_t max_tokens, int64_t n_experts, int64_t n_used)
    : experts(arena.take<int32_t>(max_tokens * n_used)),
      weights(arena.take<float>(max_tokens * n_used)),
      matrix(arena.take<int32_t>(n_experts)),
      begin(arena.take<int32_t>(n_experts + 1)),
      tokens(arena.take<int32_t>(max_tokens * n_used)),
      slots(arena.take<int32_t>(max_tokens * n_used)) {}

}  // namespace kda
