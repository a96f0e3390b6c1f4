// Names the intermediates and the inputs of a layer for a TensorSink.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "layers/tensor_sink.h"
#include "ops/ops.h"

namespace kda {

/// Does nothing, and allocates nothing, without a sink.
class Trace {
 public:
  Trace(TensorSink* sink, int64_t layer)
      : sink_(sink), layer_(layer), intermediates_(sink != nullptr && sink->wants_intermediates()) {}

  /// Whether intermediates are wanted.
  explicit operator bool() const noexcept { return intermediates_; }

  /// "l3." + name, [rows, parts, cols / parts]; parts is left out when it is 1.
  void put(std::string_view name, const MatView& x, int64_t parts = 1) const {
    if (!intermediates_) return;
    std::vector<float> values;
    values.reserve(static_cast<size_t>(x.rows * x.cols));
    for (int64_t t = 0; t < x.rows; ++t) values.insert(values.end(), x.row(t), x.row(t) + x.cols);
    std::vector<int64_t> shape = {x.rows};
    if (parts != 1) shape.push_back(parts);
    shape.push_back(x.cols / parts);
    sink_->put(layer_ < 0 ? std::string(name) : "l" + std::to_string(layer_) + "." + std::string(name), shape,
               values.data());
  }

  /// The rows of x, which the tensors are about to multiply.
  void inputs(std::initializer_list<TensorId> tensors, const MatView& x) const {
    if (sink_ == nullptr) return;
    std::vector<const float*> rows;
    for (int64_t t = 0; t < x.rows; ++t) rows.push_back(x.row(t));
    sink_->put_inputs(tensors, layer_, 0, rows, x.cols);
  }

  /// The rows of x that each matrix of stacked tensors is about to multiply.
  void inputs(std::initializer_list<TensorId> tensors, const MatView& x, const Grouping& grouping) const {
    if (sink_ == nullptr) return;
    std::vector<const float*> rows;
    for (int64_t g = 0; g < grouping.n_groups; ++g) {
      rows.clear();
      for (int32_t i = grouping.begin[g]; i < grouping.begin[g + 1]; ++i) rows.push_back(x.row(grouping.x_rows[i]));
      sink_->put_inputs(tensors, layer_, grouping.matrix[g], rows, x.cols);
    }
  }

 private:
  TensorSink* sink_;
  int64_t layer_;  // -1: outside the layers, no prefix
  bool intermediates_;
};

}  // namespace kda
