// The element types of ggml tensors, by their number in a GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kda {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

/// One past the largest type number: the size of a table indexed by type.
inline constexpr uint32_t kTensorTypeCount = 43;

/// A row of the type table.
struct TensorTypeInfo {
  TensorType type;
  std::string_view name;   // as llama.cpp prints it: "Q4_K"
  int64_t block_elements;  // elements in a block
  int64_t block_bytes;     // bytes of a block
  bool is_weight;          // may hold a model's weights (not an integer, F64 or activation type)
};

/// nullptr for a number that names no type (withdrawn or unknown). Thread-safe, as all here.
[[nodiscard]] const TensorTypeInfo* find_tensor_type(uint32_t number) noexcept;

/// Name of a withdrawn type number (4, 5, 31-33, 36-38), empty for any other.
[[nodiscard]] std::string_view withdrawn_type_name(uint32_t number) noexcept;

/// By name, case ignored.
[[nodiscard]] std::optional<TensorType> parse_tensor_type(std::string_view name) noexcept;

[[nodiscard]] const TensorTypeInfo& type_info(TensorType type) noexcept;

/// Bytes of a row of n elements; n must be a multiple of the block length.
[[nodiscard]] inline int64_t row_bytes(TensorType type, int64_t n) noexcept {
  const TensorTypeInfo& t = type_info(type);
  return n / t.block_elements * t.block_bytes;
}

}  // namespace kda
