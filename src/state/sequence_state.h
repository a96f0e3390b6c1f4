// What one timeline of tokens carries from token to token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/model_config.h"
#include "base/aligned_buffer.h"

namespace kda {

/// The recurrent state of one KDA layer.
struct KdaState {
  float* state = nullptr;      // [H, V, K]
  float* conv_tail = nullptr;  // [3, taps - 1, H * K]: last rows of q, k, v before the convolution, oldest first
};

/// KDA states, convolution tails, latent caches and the tokens themselves. The KDA part does not grow and cannot be
/// rolled back; the cache grows by a row a token and layer and is cut by forgetting rows. Not thread-safe.
class SequenceState {
 public:
  /// Takes memory for `context` tokens; pages that no token reaches stay untouched. Throws Error(kLimit).
  SequenceState(const ModelConfig& config, int64_t context);

  /// Bytes of the KDA part, and of the caches and tokens at `context`: what the constructor takes.
  [[nodiscard]] static int64_t recurrent_bytes(const ModelConfig& config) noexcept;
  [[nodiscard]] static int64_t cache_bytes(const ModelConfig& config, int64_t context) noexcept;
  /// Of the latent rows of n tokens in all layers.
  [[nodiscard]] static int64_t latent_bytes(const ModelConfig& config, int64_t n) noexcept;

  /// Of a layer of the matching kind, by its index in the model.
  [[nodiscard]] KdaState kda(int64_t layer) const noexcept;
  [[nodiscard]] float* latents(int64_t layer) const noexcept;  // [context, R + P]

  [[nodiscard]] int64_t context() const noexcept { return context_; }
  [[nodiscard]] int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const int32_t> tokens() const noexcept { return {tokens_, static_cast<size_t>(size_)}; }
  /// The whole KDA part, for snapshots.
  [[nodiscard]] std::span<float> recurrent() const noexcept { return recurrent_.as<float>(recurrent_floats_); }
  /// The whole of the caches, for tests that poison them.
  [[nodiscard]] std::span<float> caches() const noexcept;

  /// Notes that ids went through all layers. They must fit.
  void append(std::span<const int32_t> ids) noexcept;
  /// Forgets tokens from `size` on. The caller puts the KDA part right.
  void truncate(int64_t size) noexcept;
  /// Back to the empty timeline.
  void clear() noexcept;

 private:
  int64_t context_;
  int64_t size_ = 0;
  size_t recurrent_floats_;
  int64_t latent_dim_;
  int64_t state_floats_;             // of one KDA layer
  int64_t layer_floats_;             // ... with its convolution tail
  std::vector<int64_t> kind_index_;  // by layer: which one of its kind it is
  AlignedBuffer recurrent_;
  AlignedBuffer cache_;
  int32_t* tokens_;  // [context], in cache_ after the latents
};

}  // namespace kda
