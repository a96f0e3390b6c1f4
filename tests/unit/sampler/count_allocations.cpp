#include "unit/sampler/count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local size_t n_calls = 0;
}

size_t kda::test::n_allocations() { return n_calls; }

// Sanitizers want every plain form replaced together.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++n_calls;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
