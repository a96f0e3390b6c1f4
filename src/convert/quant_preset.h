// The names under which whole files are quantised: "Q4_K_M".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "quant/tensor_type.h"

namespace kda {

struct QuantPreset {
  std::string_view name;
  TensorType base;     // of most matrices
  uint32_t file_type;  // general.file_type (ggml-blocks 12.5)
};

/// All of them. Thread-safe, as all here.
[[nodiscard]] std::span<const QuantPreset> quant_presets() noexcept;

/// By name, case ignored. Throws Error(kUsage) for an unknown one and Error(kUnsupported) for one whose base type this
/// build cannot write.
[[nodiscard]] const QuantPreset& find_quant_preset(std::string_view name);

/// True for the types of floating-point numbers without blocks: F32, F16, BF16.
[[nodiscard]] bool is_plain(TensorType type) noexcept;

/// The type that stands in for `type` in rows of `cols` elements: itself where its blocks fit, else the type of 32
/// elements a block that llama.cpp falls back to (model-spec 5.5), else F16.
[[nodiscard]] TensorType type_that_fits(TensorType type, int64_t cols) noexcept;

}  // namespace kda
