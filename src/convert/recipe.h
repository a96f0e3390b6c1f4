// Which tensor gets which type in a file that is named after one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convert/plan.h"
#include "convert/quant_preset.h"
#include "convert/type_rules.h"

namespace kda {

enum class Recipe : uint8_t {
  kKda,       // measured for KDA models, never larger than llama.cpp's (docs/quantization.md)
  kLlamaCpp,  // what llama.cpp's quantiser chooses (model-spec 5.5)
  kPure,      // the base type everywhere
};

/// Sets `type` of every tensor: F32 where it must stay (a source in F16 or BF16 keeps its router and unknown tensors as
/// they are), else what the recipe says, else what the last rule that matches the name says. Types that do not fit a
/// tensor's rows are replaced by type_that_fits. Rules that match nothing they may change are named in `notes`.
void choose_types(std::vector<PlannedTensor>& tensors, const QuantPreset& preset, Recipe recipe,
                  std::span<const TypeRule> rules, std::vector<std::string>& notes);

}  // namespace kda
