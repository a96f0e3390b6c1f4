// What one timeline of tokens carries from token to token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/model_config.h"
#include "base/aligned_buffer.h"
#include "ops/ops.h"

namespace kda {

/// The recurrent state of one KDA layer.
struct KdaState {
  float* state = nullptr;      // [H, V, K]
  float* conv_tail = nullptr;  // [3, taps - 1, H * K]: last rows of q, k, v before the convolution, oldest first
  KdaRows pending = {};        // of tokens that went through but are not in `state` yet
  KdaRows kept = {};           // room for the rows of a tentative pass; else empty
};

/// KDA states, convolution tails, latent caches and the tokens themselves. The KDA part does not grow and cannot be
/// rolled back; the cache grows by a row a token and layer and is cut by forgetting rows. Not thread-safe.
///
/// The tokens of a tentative pass leave the KDA part as it was. What its recurrence took of them is kept, so that those
/// of them that turn out right enter it with the next pass (they are pending), and the others are forgotten.
class SequenceState {
 public:
  /// Takes memory for `context` tokens, and for tentative passes of up to max_tentative; pages that no token reaches
  /// stay untouched. Throws Error(kLimit).
  SequenceState(const ModelConfig& config, int64_t context, int64_t max_tentative = 0);

  /// Bytes of the KDA part, of what tentative passes need, and of the caches and tokens at `context`: what the
  /// constructor takes.
  [[nodiscard]] static int64_t recurrent_bytes(const ModelConfig& config) noexcept;
  [[nodiscard]] static int64_t tentative_bytes(const ModelConfig& config, int64_t max_tentative) noexcept;
  [[nodiscard]] static int64_t cache_bytes(const ModelConfig& config, int64_t context) noexcept;
  /// Of the latent rows of n tokens in all layers.
  [[nodiscard]] static int64_t latent_bytes(const ModelConfig& config, int64_t n) noexcept;

  /// Of a layer of the matching kind, by its index in the model; n_tentative: with room for so many rows.
  [[nodiscard]] KdaState kda(int64_t layer, int64_t n_tentative = 0) const noexcept;
  [[nodiscard]] float* latents(int64_t layer) const noexcept;  // [context, R + P]

  // Latent rows as bytes, to be copied to a state of the same engine.
  /// The layers that have them, by their index in the model.
  [[nodiscard]] std::span<const int64_t> mla_layers() const noexcept { return mla_layers_; }
  /// Of one row; rows of a layer lie without gaps.
  [[nodiscard]] int64_t latent_row_bytes() const noexcept;
  /// Rows [begin, end) of one of mla_layers(), within the context.
  [[nodiscard]] std::span<std::byte> latent_rows(int64_t layer, int64_t begin, int64_t end) const noexcept;

  [[nodiscard]] int64_t context() const noexcept { return context_; }
  [[nodiscard]] int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const int32_t> tokens() const noexcept { return {tokens_, static_cast<size_t>(size_)}; }
  /// The whole KDA part, for snapshots.
  [[nodiscard]] std::span<float> recurrent() const noexcept { return recurrent_.as<float>(recurrent_floats_); }
  /// The whole of the caches, for tests that poison them.
  [[nodiscard]] std::span<float> caches() const noexcept;

  /// Notes that ids went through all layers, with the rows that were pending. They must fit.
  void append(std::span<const int32_t> ids) noexcept;
  /// Notes that ids went through in a tentative pass, with the rows that were pending. The first counts at once.
  void append_tentative(std::span<const int32_t> ids) noexcept;
  /// The tokens behind the present ones that a tentative pass saw and that do not count yet.
  [[nodiscard]] std::span<const int32_t> tentative() const noexcept;
  /// The first of tentative() counts.
  void confirm() noexcept;
  /// Tokens that count and are not in the KDA part.
  [[nodiscard]] int64_t n_pending() const noexcept { return n_pending_; }
  /// Notes that the pending rows entered the KDA part; forgets what is tentative.
  void settled() noexcept;
  /// Forgets tokens from `size` on. The caller puts the KDA part right.
  void truncate(int64_t size) noexcept;
  /// Makes the timeline these tokens. The caller has put their latent rows and the KDA part in place; nothing is
  /// pending.
  void assign(std::span<const int32_t> tokens) noexcept;
  /// Back to the empty timeline.
  void clear() noexcept;

 private:
  int64_t context_;
  int64_t size_ = 0;
  size_t recurrent_floats_;
  int64_t latent_dim_;
  int64_t state_floats_;  // of one KDA layer
  int64_t layer_floats_;  // ... with its convolution tail
  int64_t max_tentative_;
  int64_t width_, heads_;  // of KDA layers
  int64_t n_pending_ = 0;
  int64_t n_tentative_ = 0;
  std::vector<int64_t> kind_index_;  // by layer: which one of its kind it is
  std::vector<int64_t> mla_layers_;
  AlignedBuffer recurrent_;
  AlignedBuffer kept_;  // by KDA layer [max_tentative, 4 * width + heads]: q, k, v, f, beta of a tentative pass
  AlignedBuffer cache_;
  int32_t* tokens_;  // [context], in cache_ after the latents
};

/// The two ways to compute MLA, see layers/mla.cpp. They differ in the last bits.
enum class MlaForm : uint8_t {
  kAuto,      // by the number of tokens in the segment
  kAbsorbed,  // cheaper for few tokens
  kExpanded,  // cheaper for many
};

/// Tokens of one sequence that go through the layers together with those of others, behind the ones that state holds.
struct Segment {
  SequenceState* state = nullptr;
  std::span<const int32_t> ids;
  bool tentative = false;  // all after the first may be taken back
  MlaForm mla_form = MlaForm::kAuto;

  [[nodiscard]] int64_t n() const noexcept { return static_cast<int64_t>(ids.size()); }
};

}  // namespace kda
