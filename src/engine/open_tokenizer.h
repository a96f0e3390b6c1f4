// A model's tokenizer without its weights.
#pragma once

#include <memory>

#include "formats/hub.h"
#include "tokenizer/tokenizer.h"

namespace kda {

/// Reads the vocabulary alone. Throws Error(kNotFound) when the model came without one, and what the readers of the
/// formats throw.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const ModelLocation& location);

}  // namespace kda
