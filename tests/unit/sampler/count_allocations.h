// Counts what the test program takes from the heap.
#pragma once

#include <cstddef>

namespace kda::test {

/// How often this thread has called operator new.
size_t n_allocations();

}  // namespace kda::test
