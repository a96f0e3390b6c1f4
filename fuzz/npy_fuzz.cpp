// parse_npy_ints on any bytes: it returns or throws Error.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "formats/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    if (kda::parse_npy_ints({reinterpret_cast<const std::byte*>(data), size}, "fuzz").size() > size) __builtin_trap();
  } catch (const kda::Error&) {
  }
  return 0;
}
