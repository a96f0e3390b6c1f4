#include "convert/gguf_metadata.h"

#include <string_view>

namespace kda {

namespace {

constexpr std::string_view kFileType = "general.file_type";
constexpr std::string_view kQuantizationVersion = "general.quantization_version";
constexpr uint32_t kCurrentQuantizationVersion = 2;

}  // namespace

void copy_metadata(const GgufFile& from, const QuantPreset* preset, GgufWriter& to) {
  for (const auto& [key, value] : from.metadata()) {
    if (key.starts_with("split.")) continue;
    if (preset != nullptr &&
        (key == kFileType || key == kQuantizationVersion || key.starts_with("quantize.imatrix."))) {
      continue;
    }
    to.add_value(key, value);
  }
  if (preset == nullptr) return;
  to.add_uint32(kFileType, preset->file_type);
  to.add_uint32(kQuantizationVersion, kCurrentQuantizationVersion);
}

}  // namespace kda
