// safetensors files and sharded sets of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace kda {

struct SafeTensor {
  std::string name;
  std::string dtype;                 // as written: "BF16"
  std::vector<int64_t> shape;        // slowest first; empty: a scalar
  std::span<const std::byte> bytes;  // may start at any address

  [[nodiscard]] int64_t n_elements() const noexcept;
};

/// One file.
class SafeTensorsFile {
 public:
  /// Checks everything of ggml-blocks section 13. Throws Error(kFormat). Never reads outside `bytes`.
  static SafeTensorsFile parse(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] std::span<const SafeTensor> tensors() const noexcept { return tensors_; }

 private:
  std::vector<SafeTensor> tensors_;  // by offset
};

/// All tensors of a Hugging Face folder: model.safetensors, or the files that model.safetensors.index.json names.
class SafeTensorsModel {
 public:
  /// Throws Error: nothing there, a Git LFS pointer in place of a file, a tensor missing or twice, names that leave the
  /// folder.
  static SafeTensorsModel open(const std::filesystem::path& folder);

  [[nodiscard]] const SafeTensor* find(std::string_view name) const noexcept;
  /// By name.
  [[nodiscard]] const std::map<std::string, const SafeTensor*, std::less<>>& tensors() const noexcept { return index_; }
  [[nodiscard]] std::span<const MappedFile> files() const noexcept { return files_; }

 private:
  std::vector<MappedFile> files_;
  std::vector<SafeTensorsFile> parsed_;
  std::map<std::string, const SafeTensor*, std::less<>> index_;
};

}  // namespace kda
