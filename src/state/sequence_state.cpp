#include "state/sequence_state.h"

#include <algorithm>

#include "base/error.h"

namespace kda {

namespace {

int64_t state_floats(const ModelConfig& config) noexcept { return config.kda_width() * config.kda_head_dim; }

int64_t layer_floats(const ModelConfig& config) noexcept {
  return state_floats(config) + 3 * (config.conv_kernel - 1) * config.kda_width();
}

int64_t kept_row_floats(int64_t width, int64_t heads) noexcept { return 4 * width + heads; }

int64_t latent_floats(const ModelConfig& config, int64_t context) noexcept {
  return config.count(AttentionKind::kMla) * context * config.latent_dim();
}

}  // namespace

int64_t SequenceState::recurrent_bytes(const ModelConfig& config) noexcept {
  return config.count(AttentionKind::kKda) * layer_floats(config) * int64_t{sizeof(float)};
}

int64_t SequenceState::tentative_bytes(const ModelConfig& config, int64_t max_tentative) noexcept {
  return config.count(AttentionKind::kKda) * max_tentative * kept_row_floats(config.kda_width(), config.kda_heads) *
         int64_t{sizeof(float)};
}

int64_t SequenceState::cache_bytes(const ModelConfig& config, int64_t context) noexcept {
  return latent_bytes(config, context) + context * int64_t{sizeof(int32_t)};
}

int64_t SequenceState::latent_bytes(const ModelConfig& config, int64_t n) noexcept {
  return latent_floats(config, n) * int64_t{sizeof(float)};
}

SequenceState::SequenceState(const ModelConfig& config, int64_t context, int64_t max_tentative)
    : context_(context),
      recurrent_floats_(static_cast<size_t>(recurrent_bytes(config)) / sizeof(float)),
      latent_dim_(config.latent_dim()),
      state_floats_(state_floats(config)),
      layer_floats_(layer_floats(config)),
      max_tentative_(max_tentative),
      width_(config.kda_width()),
      heads_(config.kda_heads),
      recurrent_(static_cast<size_t>(recurrent_bytes(config))),
      kept_(static_cast<size_t>(tentative_bytes(config, max_tentative))),
      cache_(static_cast<size_t>(cache_bytes(config, context))),
      tokens_(reinterpret_cast<int32_t*>(cache_.data()) + latent_floats(config, context)) {
  int64_t n_of_kind[2] = {};
  for (const LayerConfig& layer : config.layers) {
    const bool is_kda = layer.attention == AttentionKind::kKda;
    if (!is_kda) mla_layers_.push_back(static_cast<int64_t>(kind_index_.size()));
    kind_index_.push_back(n_of_kind[is_kda ? 0 : 1]++);
  }
}

KdaState SequenceState::kda(int64_t layer, int64_t n_tentative) const noexcept {
  KDA_CHECK(n_tentative <= max_tentative_);
  const int64_t index = kind_index_[static_cast<size_t>(layer)];
  float* const begin = recurrent().data() + index * layer_floats_;
  KdaState out = {.state = begin, .conv_tail = begin + state_floats_};
  const int64_t stride = kept_row_floats(width_, heads_);
  float* const kept = reinterpret_cast<float*>(kept_.data()) + index * max_tentative_ * stride;
  const auto rows = [&](int64_t n) -> KdaRows {
    const auto part = [&](int64_t i) { return MatView{kept + i * width_, n, width_, stride}; };
    return {.q = part(0), .k = part(1), .v = part(2), .f = part(3), .beta = {kept + 4 * width_, n, heads_, stride}};
  };
  if (n_pending_ > 0) out.pending = rows(n_pending_);
  if (n_tentative > 0) out.kept = rows(n_tentative);
  return out;
}

float* SequenceState::latents(int64_t layer) const noexcept {
  return caches().data() + kind_index_[static_cast<size_t>(layer)] * context_ * latent_dim_;
}

int64_t SequenceState::latent_row_bytes() const noexcept { return latent_dim_ * int64_t{sizeof(float)}; }

std::span<std::byte> SequenceState::latent_rows(int64_t layer, int64_t begin, int64_t end) const noexcept {
  KDA_CHECK(0 <= begin && begin <= end && end <= context_);
  return std::as_writable_bytes(std::span(latents(layer), static_cast<size_t>(context_ * latent_dim_)))
      .subspan(static_cast<size_t>(begin * latent_row_bytes()),
               static_cast<size_t>((end - begin) * latent_row_bytes()));
}

std::span<float> SequenceState::caches() const noexcept {
  return {reinterpret_cast<float*>(cache_.data()), reinterpret_cast<float*>(tokens_)};
}

void SequenceState::append(std::span<const int32_t> ids) noexcept {
  KDA_CHECK(size_ + static_cast<int64_t>(ids.size()) <= context_);
  std::copy(ids.begin(), ids.end(), tokens_ + size_);
  size_ += static_cast<int64_t>(ids.size());
  settled();
}

void SequenceState::append_tentative(std::span<const int32_t> ids) noexcept {
  append(ids);
  n_pending_ = 1;
  n_tentative_ = static_cast<int64_t>(ids.size()) - 1;
  size_ -= n_tentative_;
}

std::span<const int32_t> SequenceState::tentative() const noexcept {
  return {tokens_ + size_, static_cast<size_t>(n_tentative_)};
}

void SequenceState::confirm() noexcept {
  KDA_CHECK(n_tentative_ > 0);
  ++size_;
  ++n_pending_;
  --n_tentative_;
}

void SequenceState::settled() noexcept {
  n_pending_ = 0;
  n_tentative_ = 0;
}

void SequenceState::truncate(int64_t size) noexcept {
  KDA_CHECK(size >= 0 && size <= size_);
  size_ = size;
  settled();
}

void SequenceState::assign(std::span<const int32_t> tokens) noexcept {
  size_ = 0;
  append(tokens);
}

void SequenceState::clear() noexcept {
  truncate(0);
  std::ranges::fill(recurrent(), 0.0F);
}

}  // namespace kda
