// The table of the AVX2 kernels. Compiled with baseline flags: only the files in avx2/ may use newer instructions.
#include "kernels/kernel_table.h"

namespace kda {

const KernelTable* avx2_kernels() noexcept { return nullptr; }

}  // namespace kda
