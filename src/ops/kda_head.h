// One head of a KDA layer, from its projections to its gated output.
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "ops/ops.h"

namespace kda {

/// Tokens that go through a head's convolution, norms and recurrence together: their vectors stay in the second-level
/// cache beside the state.
inline constexpr int64_t kKdaChunkTokens = 32;

/// Floats of scratch that kda_head uses: q, k, v, log decay and output of a chunk, beta, a row of the gate, and a copy
/// of state and convolution tail for rows that may be taken back.
[[nodiscard]] constexpr int64_t kda_head_scratch_floats(int64_t head_dim, int64_t taps) noexcept {
  return (5 * kKdaChunkTokens + 1 + head_dim + 3 * (taps - 1)) * head_dim + kKdaChunkTokens;
}

/// Runs head `head` of op over all of its tokens; writes the head's columns of op.out, and its state and convolution
/// tail as far as op asks for it.
/// Heads may run at the same time. scratch [kda_head_scratch_floats] is 64-byte aligned.
void kda_head(const KernelTable& kernels, const KdaOp& op, int64_t head, float* scratch);

}  // namespace kda
