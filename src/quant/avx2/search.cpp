// Compiled for AVX2. The table is constant data: to name it runs no instruction that an older processor lacks.
#include "quant/search_loops.h"

namespace kda {

constinit const SearchTable kAvx2Search = search_table("avx2");

}  // namespace kda
