// Metadata of a GGUF file that is made from a Hugging Face folder (model-spec 5.1, 6.5).
#pragma once

#include <filesystem>
#include <string>

#include "arch/model_config.h"
#include "convert/model_card.h"
#include "convert/quant_preset.h"
#include "formats/gguf.h"
#include "tokenizer/tokenizer.h"

namespace kda {

/// general.*: what the model is called and where it comes from. n_parameters names the size where the folder's name
/// does not. Sampling defaults come from generation_config.json.
void add_general_metadata(const ModelCard& card, const std::filesystem::path& folder, const ModelConfig& config,
                          int64_t n_parameters, const QuantPreset& preset, GgufWriter& to);

/// ARCHITECTURE.*: the dimensions. config.json gives what ModelConfig does not keep.
void add_architecture_metadata(const ModelConfig& config, const std::filesystem::path& folder, GgufWriter& to);

/// tokenizer.*: tokens, merges, special ids, the chat template ("" : none).
void add_tokenizer_metadata(const Vocabulary& vocabulary, const std::string& chat_template, GgufWriter& to);

}  // namespace kda
