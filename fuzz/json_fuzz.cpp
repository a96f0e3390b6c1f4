// parse_json on any bytes: it returns or throws Error; what it returns is written and read again as the same.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "formats/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const kda::Json json = kda::parse_json(text, "fuzz");
    if (kda::parse_json(json.dump(), "again") != json) __builtin_trap();
  } catch (const kda::Error&) {
  }
  return 0;
}
