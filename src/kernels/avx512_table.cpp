// The table of the AVX-512 kernels. Compiled with baseline flags: only the files in avx512/ may use newer instructions.
#include "kernels/kernel_table.h"

#if defined(__x86_64__)

namespace kda {

const KernelTable* avx512_kernels() noexcept {
  static const KernelTable filled = [] {
    KernelTable table = *avx2_kernels();  // what has no version of its own below
    table.name = "avx512";
    return table;
  }();
  return &filled;
}

}  // namespace kda

#else

namespace kda {

const KernelTable* avx512_kernels() noexcept { return nullptr; }

}  // namespace kda

#endif
