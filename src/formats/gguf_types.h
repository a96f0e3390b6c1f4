// What the reader, the writer and the typed access of GGUF values share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/gguf.h"

namespace kda {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr uint32_t kGgufDefaultAlignment = 32;
inline constexpr uint32_t kGgufMaxAlignment = uint32_t{1} << 20;
inline constexpr uint32_t kGgufTypeCount = 13;
inline constexpr size_t kGgufMaxKeyLength = 65535;
inline constexpr size_t kGgufMaxTensorNameLength = 63;  // C code keeps names in 64 bytes with a final NUL
inline constexpr uint32_t kGgufMaxDims = 4;

/// Bytes of a value of a fixed size; 0 for strings and arrays.
[[nodiscard]] constexpr uint64_t gguf_type_bytes(GgufType type) noexcept {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

/// "UINT32", as the format's description calls it.
[[nodiscard]] std::string_view gguf_type_name(GgufType type) noexcept;

/// The value of a type with a fixed size whose bytes begin at p.
[[nodiscard]] GgufValue load_gguf_scalar(GgufType type, const std::byte* p) noexcept;

[[nodiscard]] constexpr bool is_gguf_alignment(uint64_t alignment) noexcept {
  return alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= kGgufMaxAlignment;
}

/// Next multiple of a power of two; n must be that far from 2^64.
[[nodiscard]] constexpr uint64_t round_up(uint64_t n, uint64_t alignment) noexcept {
  return (n + alignment - 1) & ~(alignment - 1);
}

}  // namespace kda
