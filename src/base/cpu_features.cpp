#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <fstream>
#include <limits>

namespace kda {

namespace {

#if defined(__x86_64__)
// clang 14 does not know the name for __builtin_cpu_supports.
bool has_f16c() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

CpuFeatures detect() noexcept {
  CpuFeatures f;
#if defined(__x86_64__)
  // These ask the operating system too (xgetbv): a processor whose wide registers are not saved counts as without them.
  __builtin_cpu_init();
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
  f.neon = true;
#endif
  return f;
}

/// The number in a one-line file of the kernel, or the largest one when there is none ("max").
int64_t read_number(const char* path) {
  std::ifstream in(path);
  int64_t n = 0;
  return in >> n ? n : std::numeric_limits<int64_t>::max();
}

}  // namespace

const CpuFeatures& cpu_features() noexcept {
  static const CpuFeatures features = detect();
  return features;
}

std::string cpu_features_text() {
  const CpuFeatures& f = cpu_features();
  std::string text;
  for (const auto& [on, name] : {std::pair{f.avx2, "avx2"}, {f.avx512, "avx512"}, {f.neon, "neon"}}) {
    if (on) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text.empty() ? "none beyond the baseline" : text;
}

int64_t available_memory_bytes() noexcept {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream in("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  while (in >> key >> kib) {
    if (key == "MemAvailable:") available = kib * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max");
  if (limit != std::numeric_limits<int64_t>::max()) {
    available = std::min(available, limit - std::min(limit, read_number("/sys/fs/cgroup/memory.current")));
  }
  return available;
}

}  // namespace kda
