// What a Hugging Face folder says about the model besides its tensors: name, licence, origin.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

struct ModelCard {
  std::string repository;                      // "moonshotai/Kimi-Linear-48B-A3B-Instruct", or empty
  std::string file_name;                       // "Kimi-Linear-48B-A3B-Instruct": the folder's or the repository's
  std::string basename, size_label, finetune;  // parts of it: "Kimi-Linear", "48B-A3B", "Instruct"
  // From the front matter of README.md; empty where it does not tell.
  std::string license, license_name, license_link;
  std::vector<std::string> base_models, tags, languages;
};

/// Reads README.md's front matter where there is one and takes the name from the folder, which may be a snapshot in the
/// Hugging Face cache. Throws Error(kIo | kLimit) when README.md cannot be read.
[[nodiscard]] ModelCard read_model_card(const std::filesystem::path& folder);

/// The parts of a name by the convention of GGUF files: words with a dash between them, the size among them ("48B",
/// "A3B" for active weights). No size: all of it is the basename.
void split_model_name(std::string_view name, ModelCard& card);

/// Fills in the members that README.md's text tells. Only the plain forms of YAML that model cards use are understood:
/// KEY: VALUE, KEY: [A, B], and KEY: with lines of "- VALUE".
void read_front_matter(std::string_view readme, ModelCard& card);

}  // namespace kda
