#include "convert/quant_preset.h"

#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"
#include "formats/file_kind.h"
#include "quant/codec.h"

namespace kda {

namespace {

using T = TensorType;

// Base types of the presets whose name is no type: those of the files that llama.cpp writes.
constexpr QuantPreset kPresets[] = {
    {"F32", T::kF32, 0},       {"F16", T::kF16, 1},         {"BF16", T::kBF16, 32},       {"Q8_0", T::kQ8_0, 7},
    {"Q6_K", T::kQ6_K, 18},    {"Q5_K_M", T::kQ5_K, 17},    {"Q5_K_S", T::kQ5_K, 16},     {"Q4_K_M", T::kQ4_K, 15},
    {"Q4_K_S", T::kQ4_K, 14},  {"Q3_K_L", T::kQ3_K, 13},    {"Q3_K_M", T::kQ3_K, 12},     {"Q3_K_S", T::kQ3_K, 11},
    {"Q2_K", T::kQ2_K, 10},    {"Q2_K_S", T::kQ2_K, 21},    {"Q4_0", T::kQ4_0, 2},        {"Q4_1", T::kQ4_1, 3},
    {"Q5_0", T::kQ5_0, 8},     {"Q5_1", T::kQ5_1, 9},       {"IQ4_NL", T::kIQ4_NL, 25},   {"IQ4_XS", T::kIQ4_XS, 30},
    {"IQ3_M", T::kIQ3_S, 27},  {"IQ3_S", T::kIQ3_S, 26},    {"IQ3_XXS", T::kIQ3_XXS, 23}, {"IQ2_M", T::kIQ2_S, 29},
    {"IQ2_S", T::kIQ2_XS, 28}, {"IQ2_XS", T::kIQ2_XS, 20},  {"IQ2_XXS", T::kIQ2_XXS, 19}, {"IQ1_M", T::kIQ1_M, 31},
    {"IQ1_S", T::kIQ1_S, 24},  {"MXFP4_MOE", T::kQ8_0, 38},
};

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (upper(a[i]) != upper(b[i])) return false;
  }
  return true;
}

}  // namespace

std::span<const QuantPreset> quant_presets() noexcept { return kPresets; }

const QuantPreset& find_quant_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const QuantPreset& preset : kPresets) {
    if (same_name(preset.name, name)) {
      if (can_quantize(preset.base)) return preset;
      fail(ErrorCode::kUnsupported, "type {}: this version reads {} but cannot write it", preset.name,
           type_info(preset.base).name);
    }
    names.push_back(preset.name);
  }
  fail(ErrorCode::kUsage, "type {} is not known, expected one of {}", quote(name), fmt::join(names, ", "));
}

bool is_plain(TensorType type) noexcept { return type == T::kF32 || type == T::kF16 || type == T::kBF16; }

TensorType type_that_fits(TensorType type, int64_t cols) noexcept {
  const auto fits = [&](TensorType t) { return cols % type_info(t).block_elements == 0; };
  if (fits(type)) return type;
  TensorType other = T::kIQ4_NL;  // of the IQ types
  switch (type) {
    case T::kQ2_K:
    case T::kQ3_K:
    case T::kTQ1_0:
    case T::kTQ2_0:
      other = T::kQ4_0;
      break;
    case T::kQ4_K:
      other = T::kQ5_0;
      break;
    case T::kQ5_K:
      other = T::kQ5_1;
      break;
    case T::kQ6_K:
      other = T::kQ8_0;
      break;
    default:
      break;
  }
  return fits(other) ? other : T::kF16;
}

}  // namespace kda
