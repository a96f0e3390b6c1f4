// The GGUF models in a folder, and which of them a label such as Q4_K_M means.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

/// A GGUF file, or the first part of a split set (which may be missing when others are there).
struct GgufCandidate {
  std::filesystem::path path;
  std::string relative;  // to the folder that was searched, with '/'
};

/// All in `folder` and, up to `max_depth` levels down, its sub-folders (links to folders are not followed), by name.
/// Files beside a model that are none (projectors, draft heads, importance matrices) are left out.
[[nodiscard]] std::vector<GgufCandidate> list_gguf_models(const std::filesystem::path& folder, int max_depth);

/// Those that the label fits best, case ignored. Best to worst: it is the file's name or its quantization; it is in the
/// name as whole words; it begins a word there ("Q4_K" in "Q4_K_M").
[[nodiscard]] std::vector<GgufCandidate> match_label(const std::vector<GgufCandidate>& candidates,
                                                     std::string_view label);

}  // namespace kda
