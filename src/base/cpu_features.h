// What the processor at hand can do.
#pragma once

#include <cstdint>
#include <string>

namespace kda {

/// Instruction sets found at run time (and enabled by the operating system).
struct CpuFeatures {
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, DQ, VL, VNNI, on top of avx2
  bool neon = false;
};

/// Thread-safe.
[[nodiscard]] const CpuFeatures& cpu_features() noexcept;

/// "avx2 avx512", for people.
[[nodiscard]] std::string cpu_features_text();

/// Physical memory that can be had without swapping, in bytes (MemAvailable, cut by the cgroup's limit).
[[nodiscard]] int64_t available_memory_bytes() noexcept;

}  // namespace kda
