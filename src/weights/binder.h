// Tensors of a file + schema -> the model's weights as checked views.
#pragma once

#include <string>

#include "arch/model_config.h"
#include "weights/checkpoint.h"
#include "weights/owned_memory.h"
#include "weights/tensor_table.h"

namespace kda {

/// Finds every tensor that the configuration asks for, checks type and shape, marks it used in `table`, and returns the
/// views. Vectors are converted into `memory`; matrices point into the mapping. What was assumed or left aside is added
/// to `warnings`. Throws Error(kFormat) naming all missing tensors or the first of a wrong shape, Error(kUnsupported)
/// naming a tensor of a type that is not supported.
[[nodiscard]] ModelWeights bind_weights(const ModelConfig& config, const std::string& subject, TensorTable& table,
                                        OwnedMemory& memory, std::vector<std::string>& warnings);

}  // namespace kda
