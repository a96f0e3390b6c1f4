// The tensors of a GGUF file (set) or a Hugging Face folder, alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/tensor_type.h"

namespace kda {

class GgufModel;
class SafeTensorsModel;

enum class TensorFormat : uint8_t { kGguf, kHuggingFace };

struct FileTensor {
  std::string_view name;
  std::string_view type_name;            // as the file calls it
  const TensorTypeInfo* type = nullptr;  // nullptr: no type that weights can have
  std::vector<int64_t> shape;            // slowest first
  std::span<const std::byte> bytes;
  bool used = false;   // the model's weights show it
  bool known = false;  // used, or left aside for a reason that is no surprise

  [[nodiscard]] int64_t n_elements() const noexcept;
  [[nodiscard]] int64_t n_cols() const noexcept { return shape.empty() ? 1 : shape.back(); }
};

/// Views into the model's mapping and names, which must outlive it.
class TensorTable {
 public:
  explicit TensorTable(const GgufModel& model);
  explicit TensorTable(const SafeTensorsModel& model);

  [[nodiscard]] TensorFormat format() const noexcept { return format_; }
  /// nullptr when absent.
  [[nodiscard]] FileTensor* find(std::string_view name) noexcept;
  /// In file order (GGUF) or by name (folder).
  [[nodiscard]] std::span<const FileTensor> tensors() const noexcept { return tensors_; }

 private:
  void add(FileTensor tensor);

  TensorFormat format_;
  std::vector<FileTensor> tensors_;
  std::map<std::string_view, size_t> index_;  // ordered, so that names made to collide cannot slow it down
};

/// As users of the format write it: {2304, 4096} fastest first in GGUF, [4096, 2304] slowest first in a folder.
[[nodiscard]] std::string format_shape(std::span<const int64_t> shape, TensorFormat format);

}  // namespace kda
