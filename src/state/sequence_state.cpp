#include "state/sequence_state.h"

#include <algorithm>

#include "base/error.h"

namespace kda {

namespace {

int64_t state_floats(const ModelConfig& config) noexcept { return config.kda_width() * config.kda_head_dim; }

int64_t layer_floats(const ModelConfig& config) noexcept {
  return state_floats(config) + 3 * (config.conv_kernel - 1) * config.kda_width();
}

int64_t latent_floats(const ModelConfig& config, int64_t context) noexcept {
  return config.count(AttentionKind::kMla) * context * config.latent_dim();
}

}  // namespace

int64_t SequenceState::recurrent_bytes(const ModelConfig& config) noexcept {
  return config.count(AttentionKind::kKda) * layer_floats(config) * int64_t{sizeof(float)};
}

int64_t SequenceState::cache_bytes(const ModelConfig& config, int64_t context) noexcept {
  return latent_bytes(config, context) + context * int64_t{sizeof(int32_t)};
}

int64_t SequenceState::latent_bytes(const ModelConfig& config, int64_t n) noexcept {
  return latent_floats(config, n) * int64_t{sizeof(float)};
}

SequenceState::SequenceState(const ModelConfig& config, int64_t context)
    : context_(context),
      recurrent_floats_(static_cast<size_t>(recurrent_bytes(config)) / sizeof(float)),
      latent_dim_(config.latent_dim()),
      state_floats_(state_floats(config)),
      layer_floats_(layer_floats(config)),
      recurrent_(static_cast<size_t>(recurrent_bytes(config))),
      cache_(static_cast<size_t>(cache_bytes(config, context))),
      tokens_(reinterpret_cast<int32_t*>(cache_.data()) + latent_floats(config, context)) {
  int64_t n_of_kind[2] = {};
  for (const LayerConfig& layer : config.layers) {
    kind_index_.push_back(n_of_kind[layer.attention == AttentionKind::kKda ? 0 : 1]++);
  }
}

KdaState SequenceState::kda(int64_t layer) const noexcept {
  float* begin = recurrent().data() + kind_index_[static_cast<size_t>(layer)] * layer_floats_;
  return {begin, begin + state_floats_};
}

float* SequenceState::latents(int64_t layer) const noexcept {
  return caches().data() + kind_index_[static_cast<size_t>(layer)] * context_ * latent_dim_;
}

std::span<float> SequenceState::caches() const noexcept {
  return {reinterpret_cast<float*>(cache_.data()), reinterpret_cast<float*>(tokens_)};
}

void SequenceState::append(std::span<const int32_t> ids) noexcept {
  KDA_CHECK(size_ + static_cast<int64_t>(ids.size()) <= context_);
  std::copy(ids.begin(), ids.end(), tokens_ + size_);
  size_ += static_cast<int64_t>(ids.size());
}

void SequenceState::truncate(int64_t size) noexcept {
  KDA_CHECK(size >= 0 && size <= size_);
  size_ = size;
}

void SequenceState::clear() noexcept {
  size_ = 0;
  std::ranges::fill(recurrent(), 0.0F);
}

}  // namespace kda
