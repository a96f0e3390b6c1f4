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

/// Resolves what a user typed: an existing GGUF file, a folder with config.json, a folder that holds one GGUF model, or
/// org/name[:label] in the cache (LLAMA_CACHE, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub,
/// $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub; the first that holds it). `getenv_like` gives the value
/// of a variable or an empty string, so that the library itself reads no environment. Throws Error(kNotFound) listing
/// the places looked at, or Error(kFormat) for a file that is neither (a Git LFS pointer, a partial download, another
/// format: each named).
[[nodiscard]] ModelLocation locate_model(const std::string& model, std::string (*getenv_like)(const char*));

}  // namespace kda
