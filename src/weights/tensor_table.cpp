#include "weights/tensor_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace kda {

namespace {

/// The types of a Hugging Face folder that weights are read from.
const TensorTypeInfo* type_of_dtype(std::string_view dtype) noexcept {
  if (dtype == "F32") return &type_info(TensorType::kF32);
  if (dtype == "F16") return &type_info(TensorType::kF16);
  if (dtype == "BF16") return &type_info(TensorType::kBF16);
  return nullptr;
}

}  // namespace

int64_t FileTensor::n_elements() const noexcept {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

TensorTable::TensorTable(const GgufModel& model) : format_(TensorFormat::kGguf) {
  for (const GgufFile& part : model.parts()) {
    for (const GgufTensor& t : part.tensors()) {
      const TensorTypeInfo& type = type_info(t.type);
      FileTensor tensor;
      tensor.name = t.name;
      tensor.type_name = type.name;
      tensor.type = type.is_weight ? &type : nullptr;
      tensor.shape.assign(t.ne, t.ne + t.n_dims);
      std::reverse(tensor.shape.begin(), tensor.shape.end());
      tensor.bytes = t.bytes;
      add(std::move(tensor));
    }
  }
}

TensorTable::TensorTable(const SafeTensorsModel& model) : format_(TensorFormat::kHuggingFace) {
  for (const auto& [name, t] : model.tensors()) {
    FileTensor tensor;
    tensor.name = name;
    tensor.type_name = t->dtype;
    tensor.type = type_of_dtype(t->dtype);
    tensor.shape = t->shape;
    tensor.bytes = t->bytes;
    add(std::move(tensor));
  }
}

void TensorTable::add(FileTensor tensor) {
  index_.emplace(tensor.name, tensors_.size());
  tensors_.push_back(std::move(tensor));
}

FileTensor* TensorTable::find(std::string_view name) noexcept {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

std::string format_shape(std::span<const int64_t> shape, TensorFormat format) {
  if (format == TensorFormat::kHuggingFace) return fmt::format("[{}]", fmt::join(shape, ", "));
  std::vector<int64_t> ne(shape.rbegin(), shape.rend());
  return fmt::format("{{{}}}", fmt::join(ne, ", "));
}

}  // namespace kda
