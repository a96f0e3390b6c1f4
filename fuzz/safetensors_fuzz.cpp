// SafeTensorsFile::parse on any bytes: it returns or throws Error, and the tensors fill the data without holes.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto file = kda::SafeTensorsFile::parse(bytes, "fuzz");
    size_t n_data = 0;
    for (const kda::SafeTensor& tensor : file.tensors()) {
      if (tensor.n_elements() < 0) __builtin_trap();
      n_data += tensor.bytes.size();
      for (const std::byte b : tensor.bytes) {
        volatile std::byte seen = b;
        (void)seen;
      }
    }
    if (n_data > size - 8) __builtin_trap();
  } catch (const kda::Error&) {
  }
  return 0;
}
