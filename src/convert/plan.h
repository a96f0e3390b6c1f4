// What a conversion will write: the tensors, where their rows come from, and in which type they go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/tensor_schema.h"
#include "weights/tensor_table.h"

namespace kda {

class GgufModel;

enum class RowTransform : uint8_t {
  kNone,
  kNegExp,     // each value x becomes -exp(x)
  kTranspose,  // each piece is a matrix [cols, rows of the piece] that is turned over
};

/// Where the rows of a tensor lie. All pieces give the same number of rows: the experts of a layer, the heads of an
/// absorbed projection, or one piece for the whole tensor. Views into the source's mapping.
struct RowSource {
  TensorType type = TensorType::kF32;
  RowTransform transform = RowTransform::kNone;
  std::vector<const std::byte*> pieces;
};

struct PlannedTensor {
  std::string name;                  // as the GGUF file has it
  std::vector<int64_t> ne;           // fastest first
  const TensorSpec* spec = nullptr;  // nullptr: a tensor that the schema does not know, copied as it is
  int64_t layer = 0;
  RowSource source;
  TensorType type = TensorType::kF32;  // to be written

  [[nodiscard]] int64_t cols() const noexcept { return ne.front(); }
  [[nodiscard]] int64_t n_elements() const noexcept;
  [[nodiscard]] int64_t n_rows() const noexcept { return n_elements() / cols(); }
  [[nodiscard]] int64_t bytes() const noexcept { return row_bytes(type, cols()) * n_rows(); }
  /// True when the source's bytes are the output's.
  [[nodiscard]] bool verbatim() const noexcept {
    return source.type == type && source.transform == RowTransform::kNone;
  }
  /// Elements that are encoded together: a block where bytes are copied, else a row.
  [[nodiscard]] int64_t unit() const noexcept { return verbatim() ? type_info(type).block_elements : cols(); }
  [[nodiscard]] int64_t n_units() const noexcept { return n_elements() / unit(); }
  /// False for what stays in F32 whatever the type of the file: vectors, convolutions, the router (model-spec 5.4).
  [[nodiscard]] bool quantisable() const noexcept;
};

/// The tensors of a GGUF file of this model, in the order of the schema, without sources (model-spec 5.2). A model with
/// tied embeddings gets its head as a copy, for readers that expect one.
[[nodiscard]] std::vector<PlannedTensor> list_tensors(const ModelConfig& config);

/// list_tensors with the rows of a Hugging Face folder whose tensors Checkpoint has checked against `config`.
[[nodiscard]] std::vector<PlannedTensor> plan_folder(const ModelConfig& config, TensorTable& table);

/// Every tensor of a GGUF file (set) as it is: names, shapes, types and order are kept. Throws Error(kUnsupported) for
/// a tensor of a type that weights cannot have.
[[nodiscard]] std::vector<PlannedTensor> plan_gguf(const GgufModel& model);

[[nodiscard]] int64_t total_bytes(const std::vector<PlannedTensor>& tensors) noexcept;
[[nodiscard]] int64_t total_elements(const std::vector<PlannedTensor>& tensors) noexcept;

}  // namespace kda
