// ImportanceMatrix::parse on any bytes, in either form: it returns or throws Error, and what it holds can be asked for.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "convert/importance_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto matrix = kda::ImportanceMatrix::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    for (const std::string_view name : matrix.tensor_names()) {
      for (const float x : matrix.of(name, 0, 1)) {
        if (!(x >= 0)) __builtin_trap();
      }
    }
  } catch (const kda::Error&) {
  }
  return 0;
}
