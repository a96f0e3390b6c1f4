// Names the intermediates of a layer for a TensorSink.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/tensor_sink.h"
#include "ops/ops.h"

namespace kda {

/// Does nothing, and allocates nothing, without a sink.
class Trace {
 public:
  Trace(TensorSink* sink, int64_t layer) : sink_(sink), layer_(layer) {}

  explicit operator bool() const noexcept { return sink_ != nullptr; }

  /// "l3." + name, [rows, parts, cols / parts]; parts is left out when it is 1.
  void put(std::string_view name, const MatView& x, int64_t parts = 1) const {
    if (sink_ == nullptr) return;
    std::vector<float> values;
    values.reserve(static_cast<size_t>(x.rows * x.cols));
    for (int64_t t = 0; t < x.rows; ++t) values.insert(values.end(), x.row(t), x.row(t) + x.cols);
    std::vector<int64_t> shape = {x.rows};
    if (parts != 1) shape.push_back(parts);
    shape.push_back(x.cols / parts);
    sink_->put(layer_ < 0 ? std::string(name) : "l" + std::to_string(layer_) + "." + std::string(name), shape,
               values.data());
  }

 private:
  TensorSink* sink_;
  int64_t layer_;  // -1: outside the layers, no prefix
};

}  // namespace kda
