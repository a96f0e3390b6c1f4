// Where models lie on disk: a path, or org/name[:label] in the local Hugging Face cache.
#pragma once

#include <filesystem>
#include <string>

namespace kda {

enum class ModelKind { kGguf, kFolder };

struct ModelLocation {
  ModelKind kind = ModelKind::kGguf;
  std::filesystem::path path;  // the GGUF file (first part of a split set), or the folder
};

/// Resolves what a user typed: an existing GGUF file; a folder with config.json and safetensors; a folder that holds
/// one GGUF model, or FOLDER:LABEL of several; or ORG/NAME[:LABEL][@REVISION] in the cache (LLAMA_CACHE, HF_HUB_CACHE,
/// HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub; the first that holds
/// it), where the default label is Q4_K_M, then the first by name. A label is a quantization, other whole words of the
/// file's name, or the name; case is ignored. `getenv_like` gives the value of a variable or an empty string, so that
/// the library itself reads no environment. Throws Error(kNotFound) listing the places looked at, Error(kUsage) listing
/// the models to choose from, or Error(kFormat) for a file that is no model (a Git LFS pointer, a partial download,
/// another format: each named). Thread-safe if getenv_like is.
[[nodiscard]] ModelLocation locate_model(const std::string& model, std::string (*getenv_like)(const char*));

}  // namespace kda
