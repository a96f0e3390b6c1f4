// From a model on disk to a GGUF file in other types or other parts: what `kda convert`, `quantize`, `split` and
// `merge` have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convert/pipeline.h"
#include "convert/plan.h"
#include "convert/quant_preset.h"
#include "convert/recipe.h"
#include "convert/type_rules.h"
#include "formats/hub.h"

namespace kda {

/// Which types the tensors get.
struct TypeOptions {
  std::string type = {};  // name of a preset
  Recipe recipe = Recipe::kKda;
  std::vector<TypeRule> rules = {};       // in order; the last that matches wins
  std::filesystem::path importance = {};  // file of an importance matrix; empty: every column counts the same
  bool allow_requantize = false;          // from a type that is quantised already
};

/// How the output is cut into files.
struct SplitOptions {
  int64_t max_bytes = 0;    // of tensors in a file; 0: any number
  int64_t max_tensors = 0;  // in a file; 0: any number
  bool keep = false;        // as the source is cut
};

struct WriteOptions {
  std::string identity = {};  // what else the bytes depend on: the program's version
  int n_threads = 1;
  bool resume = false;
  bool check = false;  // read back and compare before the names appear
};

/// Immutable; holds the source's mapping. One thread at a time.
class Conversion {
 public:
  /// A model that this version can run, a folder or a GGUF file (set), in the types asked for. Throws as
  /// Checkpoint::open, read_folder_vocabulary and choose_types do, Error(kUsage) where re-quantising was not allowed,
  /// Error(kUnsupported) for a type that cannot be written.
  static Conversion to_types(const ModelLocation& source, const TypeOptions& types);
  /// Any GGUF file (set) as it is.
  static Conversion copy(const std::filesystem::path& gguf);
  ~Conversion();
  Conversion(Conversion&&) noexcept;

  [[nodiscard]] const std::vector<PlannedTensor>& tensors() const noexcept;
  /// Remarks that did not stop the planning.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept;
  /// The model's name and type as the file's name should have them: "Kimi-Linear-48B-A3B-Instruct-Q4_K_M.gguf".
  [[nodiscard]] std::string default_file_name() const;
  /// The files that write() would make for this path. Throws Error(kLimit) for more parts than the format can count.
  [[nodiscard]] std::vector<std::filesystem::path> output_paths(const std::filesystem::path& path,
                                                                const SplitOptions& split) const;

  /// Writes `path`, or PREFIX-00001-of-0000N.gguf and so on. Throws Error(kIo) when an output is an input, and what
  /// GgufOutput and write_tensors throw. After Error(kIo | kInterrupted) what was done is there for `resume`; after any
  /// other error nothing is left.
  void write(const std::filesystem::path& path, const SplitOptions& split, const WriteOptions& options,
             const ConvertProgress& progress) const;

 private:
  struct Impl;
  explicit Conversion(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
