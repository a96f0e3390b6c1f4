// Memory that the attention operations of CpuOps work in.
#pragma once

#include <cstdint>

#include "ops/cpu_ops.h"

namespace kda {

/// Floats of scratch a thread.
[[nodiscard]] int64_t attention_scratch_floats(const OpsLimits& limits) noexcept;

/// Partial results of attention that threads hold together.
[[nodiscard]] int64_t attention_parts(int n_threads) noexcept;

}  // namespace kda
