#include <cstring>

#include "base/cpu_features.h"
#include "base/error.h"
#include "kernels/kernel_table.h"

namespace kda {

const KernelTable& select_kernels(const char* name) {
  struct Set {
    const char* name;
    const KernelTable* table;  // nullptr: not built in
    bool is_supported;
  };
  const Set best_first[] = {{"avx512", avx512_kernels(), cpu_features().avx512},
                            {"avx2", avx2_kernels(), cpu_features().avx2},
                            {"scalar", &scalar_kernels(), true}};
  const bool best = *name == '\0' || std::strcmp(name, "auto") == 0;
  for (const Set& set : best_first) {
    if (!best && std::strcmp(name, set.name) != 0) continue;
    if (set.table != nullptr && set.is_supported) return *set.table;
    if (!best) {
      fail(ErrorCode::kUnsupported, "isa: {} was asked for, {}; use auto or another", name,
           set.table == nullptr ? "this program was built without it" : "this processor does not have it");
    }
  }
  fail(ErrorCode::kUsage, "isa: '{}' is unknown, expected auto, scalar, avx2 or avx512", name);
}

}  // namespace kda
