#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace kda {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "kda: internal error: %s does not hold (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace kda
