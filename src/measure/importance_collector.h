// Sums of squares of what each product of a forward pass reads: the data of an importance matrix.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/importance_matrix.h"
#include "layers/tensor_sink.h"
#include "weights/checkpoint.h"

namespace kda {

/// Give it to Sequence::feed_all_logits. Sums in double precision, 8 bytes an input column of each expert (180 MB for
/// the 48B model); tensors that read the same input share their sums. One thread at a time.
class ImportanceCollector : public TensorSink {
 public:
  /// checkpoint outlives the collector.
  explicit ImportanceCollector(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  void put(std::string_view, std::span<const int64_t>, const float*) override {}
  [[nodiscard]] bool wants_intermediates() const override { return false; }
  void put_inputs(std::span<const TensorId> tensors, int64_t layer, int64_t matrix, std::span<const float* const> rows,
                  int64_t n_columns) override;

  /// Puts all tensors into `out`, by their GGUF names: attn_k_b and attn_v_b as well as attn_kv_b, fused ones
  /// (attn_qkv, ffn_gate_up_exps) where the checkpoint has them. Tied embeddings count as what they are as output.
  void add_to(ImportanceMatrix& out) const;

 private:
  struct Sums {
    std::vector<TensorId> tensors;
    int64_t n_columns = 0;
    std::vector<double> squares;  // [matrices, n_columns]
    std::vector<int64_t> counts;  // [matrices]
  };
  /// In a layer an input is known by the first of the tensors that read it.
  using Key = std::pair<int64_t, TensorId>;

  const Checkpoint& checkpoint_;
  std::map<Key, Sums> sums_;
};

}  // namespace kda
