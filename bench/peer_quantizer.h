// llama.cpp's encoders from a shared library (libggml-base.so, as npm's node-llama-cpp brings it), to compare with in
// the same run.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "quant/tensor_type.h"

namespace kda {

class PeerQuantizer {
 public:
  explicit PeerQuantizer(const std::string& library) {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW);
    if (handle == nullptr) throw std::runtime_error(::dlerror());
    quantize_ = reinterpret_cast<QuantizeChunk>(::dlsym(handle, "ggml_quantize_chunk"));
    needs_matrix_ = reinterpret_cast<RequiresMatrix>(::dlsym(handle, "ggml_quantize_requires_imatrix"));
    if (quantize_ == nullptr || needs_matrix_ == nullptr) {
      throw std::runtime_error(library + " does not export ggml_quantize_chunk");
    }
  }

  /// False where it refuses to encode without an importance matrix.
  [[nodiscard]] bool can_quantize(TensorType type, bool has_matrix) const {
    return has_matrix || !needs_matrix_(static_cast<int>(type));
  }

  /// rows x columns floats. importance has a weight a column, or is null.
  void quantize(TensorType type, const float* src, std::byte* dst, int64_t rows, int64_t columns,
                const float* importance) const {
    quantize_(static_cast<int>(type), src, dst, 0, rows, columns, importance);
  }

 private:
  using QuantizeChunk = size_t (*)(int type, const float* src, void* dst, int64_t start, int64_t rows, int64_t columns,
                                   const float* importance);
  using RequiresMatrix = bool (*)(int type);
  QuantizeChunk quantize_ = nullptr;
  RequiresMatrix needs_matrix_ = nullptr;
};

}  // namespace kda
