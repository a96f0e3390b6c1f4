#include <cstring>

#include "base/cpu_features.h"
#include "base/error.h"
#include "kernels/kernel_table.h"

namespace kda {

const KernelTable& select_kernels(const char* name) {
  const bool best = *name == '\0' || std::strcmp(name, "auto") == 0;
  if (best || std::strcmp(name, "avx2") == 0) {
    const KernelTable* table = avx2_kernels();
    if (table != nullptr && cpu_features().avx2) return *table;
    if (!best) {
      fail(ErrorCode::kUnsupported, "isa: avx2 was asked for, {}; use scalar or auto",
           table == nullptr ? "this program was built without it" : "this processor does not have it");
    }
    return scalar_kernels();
  }
  if (std::strcmp(name, "scalar") == 0) return scalar_kernels();
  fail(ErrorCode::kUsage, "isa: '{}' is unknown, expected auto, scalar or avx2", name);
}

}  // namespace kda
