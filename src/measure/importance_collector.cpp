#include "measure/importance_collector.h"

#include "arch/tensor_schema.h"
#include "base/error.h"
#include "formats/gguf.h"

namespace kda {

namespace {

/// Matrices that a tensor is a stack of: it has three dimensions then.
size_t n_matrices(const TensorSpec& spec, const ModelConfig& config) {
  const std::vector<int64_t> shape = tensor_shape(spec.gguf_dims, config);
  return shape.size() == 3 ? static_cast<size_t>(shape[0]) : 1;
}

}  // namespace

void ImportanceCollector::put_inputs(std::span<const TensorId> tensors, int64_t layer, int64_t matrix,
                                     std::span<const float* const> rows, int64_t n_columns) {
  Sums& sums = sums_[{layer, tensors.front()}];
  const auto width = static_cast<size_t>(n_columns);
  if (sums.tensors.empty()) {
    sums.tensors.assign(tensors.begin(), tensors.end());
    sums.n_columns = n_columns;
    sums.counts.resize(n_matrices(tensor_spec(tensors.front()), checkpoint_.config()));
    sums.squares.resize(sums.counts.size() * width);
  }
  const auto m = static_cast<size_t>(matrix);
  KDA_CHECK(m < sums.counts.size() && n_columns == sums.n_columns);
  double* const squares = sums.squares.data() + m * width;
  for (const float* row : rows) {
    for (size_t c = 0; c < width; ++c) squares[c] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
  }
  sums.counts[m] += static_cast<int64_t>(rows.size());
}

void ImportanceCollector::add_to(ImportanceMatrix& out) const {
  for (const auto& [key, sums] : sums_) {
    for (const TensorId id : sums.tensors) {
      const bool tied = id == TensorId::kOutput && checkpoint_.config().tied_embeddings;
      const TensorSpec& spec = tensor_spec(tied ? TensorId::kTokenEmbedding : id);
      const std::string name = tensor_name(spec.gguf, key.first);
      const bool fused = spec.alternative && spec.hf.empty();
      const GgufModel* gguf = checkpoint_.gguf();
      if (fused && (gguf == nullptr || gguf->find_tensor(name) == nullptr)) continue;
      out.set(name, sums.n_columns, sums.squares, sums.counts);
    }
  }
}

}  // namespace kda
