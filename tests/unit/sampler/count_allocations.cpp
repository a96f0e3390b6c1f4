#include "unit/sampler/count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local size_t n_calls = 0;
}

size_t kda::test::n_allocations() { return n_calls; }

void* operator new(size_t size) {
  ++n_calls;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
