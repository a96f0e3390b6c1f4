// Any text as config.json: read_hf_config gives a valid configuration or throws Error, nothing else.
#include <cstdint>
#include <string_view>

#include "arch/model_config.h"
#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kda::ModelConfig config =
        kda::read_hf_config(kda::parse_json({reinterpret_cast<const char*>(data), size}, "config.json"), "config.json");
    kda::validate(config, "config.json");
  } catch (const kda::Error&) {  // what bad input is met with
  }
  return 0;
}
