#include "weights/binder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "arch/tensor_schema.h"
#include "base/error.h"
#include "base/half.h"
#include "formats/file_kind.h"
#include "quant/codec.h"

namespace kda {

namespace {

constexpr size_t kMaxNamesShown = 8;
constexpr size_t kMaxMissing = 1000;  // then it is pointless to look for more

/// True when the two arrays lie in memory alike: dimensions of 1 do not matter.
bool same_layout(std::span<const int64_t> a, std::span<const int64_t> b) {
  const auto without_ones = [](std::span<const int64_t> shape) {
    std::vector<int64_t> rest;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest), [](int64_t d) { return d != 1; });
    return rest;
  };
  return without_ones(a) == without_ones(b);
}

bool is_float(TensorType type) noexcept {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

void to_floats(TensorType type, const std::byte* src, std::span<float> dst) noexcept {
  const size_t n = dst.size();
  if (type == TensorType::kF32) {
    std::memcpy(dst.data(), src, n * sizeof(float));
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, src + i * sizeof(bits), sizeof(bits));
    dst[i] = type == TensorType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
}

/// dst [cols, rows] = transposed src [rows, cols], elements of the size of T; src may be unaligned.
template <typename T>
void transpose(const std::byte* src, int64_t rows, int64_t cols, std::byte* dst) noexcept {
  constexpr int64_t kBlock = 16;  // rows read side by side, so that writes come in runs
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const int64_t r1 = std::min(r0 + kBlock, rows);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = r0; r < r1; ++r) {
        std::memcpy(dst + (c * rows + r) * kSize, src + (r * cols + c) * kSize, sizeof(T));
      }
    }
  }
}

class Binder {
 public:
  Binder(const ModelConfig& config, const std::string& subject, TensorTable& table, OwnedMemory& memory,
         std::vector<std::string>& warnings)
      : config_(config), subject_(subject), table_(table), memory_(memory), warnings_(warnings) {}

  ModelWeights bind() {
    refuse_side_tensors();
    ModelWeights w;
    w.token_embd = matrix(TensorId::kTokenEmbedding);
    w.output = needs(TensorId::kOutput) ? matrix(TensorId::kOutput) : w.token_embd;
    w.output_norm = vector(TensorId::kOutputNorm);
    w.layers.resize(config_.layers.size());
    for (layer_ = 0; layer_ < config_.n_layers(); ++layer_) bind_layer(w.layers[static_cast<size_t>(layer_)]);
    fail_if_missing();
    finish_decay_rates();
    // A file of a tied model may carry the head as well; it holds the same values.
    if (config_.tied_embeddings) set_aside(TensorId::kOutput);
    report_unused();
    return w;
  }

 private:
  [[nodiscard]] bool gguf() const noexcept { return table_.format() == TensorFormat::kGguf; }
  [[nodiscard]] bool needs(TensorId id) const noexcept { return applies(tensor_spec(id), config_, layer_); }

  [[nodiscard]] std::string name_of(TensorId id, int64_t expert = 0) const {
    const TensorSpec& spec = tensor_spec(id);
    return tensor_name(gguf() ? spec.gguf : spec.hf, layer_, expert);
  }
  [[nodiscard]] std::vector<int64_t> shape_of(TensorId id) const {
    const TensorSpec& spec = tensor_spec(id);
    return tensor_shape(gguf() ? spec.gguf_dims : spec.hf_dims, config_);
  }
  /// nullptr when absent.
  [[nodiscard]] FileTensor* find(TensorId id, int64_t expert = 0) {
    FileTensor* tensor = table_.find(name_of(id, expert));
    const std::string_view old = tensor_spec(id).gguf_old;
    if (tensor == nullptr && gguf() && !old.empty()) tensor = table_.find(tensor_name(old, layer_));
    return tensor;
  }

  /// Found, checked and marked as used; nullptr and noted as missing otherwise. `instead`: what would do as well.
  const FileTensor* get(TensorId id, int64_t expert = 0, const std::string& instead = {}) {
    FileTensor* tensor = find(id, expert);
    if (tensor == nullptr) {
      missing_.push_back(instead.empty() ? name_of(id, expert)
                                         : fmt::format("{} (or {})", name_of(id, expert), instead));
      if (missing_.size() >= kMaxMissing) fail_if_missing();
      return nullptr;
    }
    check_type(*tensor, tensor_spec(id).storage);
    check_shape(*tensor, id);
    tensor->used = tensor->known = true;
    return tensor;
  }

  void check_type(const FileTensor& tensor, TensorStorage storage) const {
    const bool vector = storage == TensorStorage::kVector;
    if (tensor.type != nullptr && (!vector || is_float(tensor.type->type))) return;
    fail(ErrorCode::kUnsupported, "{}: tensor {} has type {}, expected {}", subject_, quote(tensor.name),
         tensor.type_name, vector || !gguf() ? "F32, F16 or BF16" : "a type of weights (F32, F16, BF16 or quantised)");
  }

  void check_shape(const FileTensor& tensor, TensorId id) const {
    const std::vector<int64_t> expected = shape_of(id);
    bool fits = same_layout(tensor.shape, expected);
    if (!fits && tensor_spec(id).transform == TensorTransform::kSplitHeads) {  // some files merge heads and rows
      fits = same_layout(tensor.shape, std::vector<int64_t>{expected[0] * expected[1], expected[2]});
    }
    const int64_t block = tensor.type->block_elements;
    if (!fits) {
      fail(ErrorCode::kFormat, "{}: tensor {} has shape {}, expected {}", subject_, quote(tensor.name),
           format_shape(tensor.shape, table_.format()), format_shape(expected, table_.format()));
    }
    if (expected.back() % block != 0) {
      fail(ErrorCode::kFormat, "{}: tensor {} of type {} has rows of {}, expected a multiple of {}", subject_,
           quote(tensor.name), tensor.type_name, expected.back(), block);
    }
    KDA_CHECK(static_cast<int64_t>(tensor.bytes.size()) == row_bytes(tensor.type->type, tensor.n_elements()));
  }

  /// Rows [first, first + rows) of a tensor whose rows have `cols` elements.
  static QMatView view(const FileTensor& tensor, int64_t first, int64_t rows, int64_t cols) {
    const int64_t bytes = row_bytes(tensor.type->type, cols);
    return {tensor.type->type, tensor.bytes.data() + first * bytes, rows, cols, bytes};
  }

  QMatView matrix(TensorId id, const std::string& instead = {}) {
    const FileTensor* tensor = get(id, 0, instead);
    if (tensor == nullptr) return {};
    const std::vector<int64_t> shape = shape_of(id);
    return view(*tensor, 0, shape[0], shape[1]);
  }

  std::span<float> vector(TensorId id) {
    const FileTensor* tensor = get(id);
    if (tensor == nullptr) return {};
    const std::span<float> floats = memory_.floats(tensor->n_elements());
    to_floats(tensor->type->type, tensor->bytes.data(), floats);
    // The forward pass notices NaN that reaches its logits; a router's bias only steers a choice. Decay rates have a
    // check of their own.
    const auto bad = std::ranges::find_if_not(floats, [](float x) { return std::isfinite(x); });
    if (bad != floats.end() && id != TensorId::kDecayRate) {
      fail(ErrorCode::kFormat, "{}: tensor {} holds NaN or infinity at position {}, expected finite numbers", subject_,
           name_of(id), bad - floats.begin());
    }
    return floats;
  }

  /// n matrices of [rows, cols] in one tensor, `stride` rows apart, the first at row `first`.
  QMatsView stacked(const FileTensor& tensor, int64_t n, int64_t first, int64_t stride, int64_t rows, int64_t cols) {
    const std::span<const std::byte*> data = memory_.pointers(n);
    const QMatView whole = view(tensor, first, rows, cols);
    for (int64_t i = 0; i < n; ++i) data[static_cast<size_t>(i)] = whole.data + i * stride * whole.row_bytes;
    return {whole.type, data, rows, cols, whole.row_bytes};
  }

  void bind_layer(LayerWeights& w) {
    const LayerConfig& kinds = config_.layers[static_cast<size_t>(layer_)];
    w.attn_norm = vector(TensorId::kAttentionNorm);
    w.ffn_norm = vector(TensorId::kFfnNorm);
    if (kinds.attention == AttentionKind::kKda) {
      w.kda = bind_kda();
    } else {
      w.mla = bind_mla();
    }
    if (kinds.ffn == FfnKind::kDense) {
      w.dense = {matrix(TensorId::kDenseGate), matrix(TensorId::kDenseUp), matrix(TensorId::kDenseDown)};
    } else {
      w.moe = bind_moe();
    }
  }

  KdaWeights bind_kda() {
    KdaWeights w;
    if (gguf() && find(TensorId::kKdaQ) == nullptr && find(TensorId::kKdaQkv) != nullptr) {
      const FileTensor& qkv = *get(TensorId::kKdaQkv);
      const int64_t width = config_.kda_width();
      w.q = view(qkv, 0, width, config_.hidden_size);
      w.k = view(qkv, width, width, config_.hidden_size);
      w.v = view(qkv, 2 * width, width, config_.hidden_size);
    } else {
      w.q = matrix(TensorId::kKdaQ, gguf() ? name_of(TensorId::kKdaQkv) : "");
      w.k = matrix(TensorId::kKdaK);
      w.v = matrix(TensorId::kKdaV);
    }
    w.conv_q = vector(TensorId::kConvQ);
    w.conv_k = vector(TensorId::kConvK);
    w.conv_v = vector(TensorId::kConvV);
    w.f_a = matrix(TensorId::kDecayDown);
    w.f_b = matrix(TensorId::kDecayUp);
    w.beta = matrix(TensorId::kBeta);
    const std::span<float> a = vector(TensorId::kDecayRate);
    decay_rates_.push_back({layer_, a});
    w.a = a;
    w.dt_bias = vector(TensorId::kDtBias);
    w.g_a = matrix(TensorId::kGateDown);
    w.g_b = matrix(TensorId::kGateUp);
    w.o_norm = vector(TensorId::kKdaNorm);
    w.o = matrix(TensorId::kKdaOutput);
    return w;
  }

  MlaWeights bind_mla() {
    MlaWeights w;
    if (needs(TensorId::kMlaQ)) {
      w.q = matrix(TensorId::kMlaQ);
    } else {
      w.q_a = matrix(TensorId::kMlaQDown);
      w.q_a_norm = vector(TensorId::kMlaQNorm);
      w.q_b = matrix(TensorId::kMlaQUp);
    }
    w.kv_a = matrix(TensorId::kMlaKvDown);
    w.kv_a_norm = vector(TensorId::kMlaKvNorm);
    bind_kv_up(w);
    w.o = matrix(TensorId::kMlaOutput);
    return w;
  }

  void bind_kv_up(MlaWeights& w) {
    const int64_t heads = config_.n_heads;
    const int64_t latent = config_.kv_lora_rank;
    const int64_t nope = config_.qk_nope_head_dim;
    const int64_t value = config_.v_head_dim;
    const bool split = gguf() && (find(TensorId::kMlaKUp) != nullptr || find(TensorId::kMlaKvUp) == nullptr);
    if (!split) {
      const FileTensor* kv = get(TensorId::kMlaKvUp);
      if (kv == nullptr) return;
      w.k_b = transposed_keys(*kv);
      w.v_b = stacked(*kv, heads, nope, nope + value, value, latent);
      return;
    }
    const FileTensor* k = get(TensorId::kMlaKUp, 0, name_of(TensorId::kMlaKvUp));
    const FileTensor* v = get(TensorId::kMlaVUp, 0, name_of(TensorId::kMlaKvUp));
    if (k == nullptr || v == nullptr) return;
    w.k_b = stacked(*k, heads, 0, latent, latent, nope);
    w.v_b = stacked(*v, heads, 0, value, value, latent);
    set_aside(TensorId::kMlaKvUp);  // some files carry both forms
  }

  /// The key rows of each head, [N, R] in the file, as [R, N] in memory. Plain types keep their bits; the blocks of
  /// quantised types cannot be transposed, so those become F32.
  QMatsView transposed_keys(const FileTensor& kv) {
    const int64_t heads = config_.n_heads;
    const int64_t latent = config_.kv_lora_rank;
    const int64_t nope = config_.qk_nope_head_dim;
    const TensorType type = kv.type->type;
    const bool plain = is_float(type);
    const TensorType out_type = plain ? type : TensorType::kF32;
    const int64_t head_bytes = latent * row_bytes(out_type, nope);
    const std::span<std::byte> out = memory_.bytes(heads * head_bytes);
    const std::span<const std::byte*> data = memory_.pointers(heads);
    std::vector<float> decoded(plain ? 0 : static_cast<size_t>(nope * latent));
    for (int64_t h = 0; h < heads; ++h) {
      const QMatView keys = view(kv, h * (nope + config_.v_head_dim), nope, latent);
      const std::byte* src = keys.data;
      if (!plain) {
        for (int64_t r = 0; r < nope; ++r) {
          dequantize_row(type, keys.data + r * keys.row_bytes, decoded.data() + r * latent, latent);
        }
        src = reinterpret_cast<const std::byte*>(decoded.data());
      }
      std::byte* dst = out.data() + h * head_bytes;
      data[static_cast<size_t>(h)] = dst;
      if (out_type == TensorType::kF32) {
        transpose<uint32_t>(src, nope, latent, dst);
      } else {
        transpose<uint16_t>(src, nope, latent, dst);
      }
    }
    return {out_type, data, latent, nope, row_bytes(out_type, nope)};
  }

  MoeWeights bind_moe() {
    MoeWeights w;
    w.router = matrix(TensorId::kRouter);
    w.router_bias = vector(TensorId::kRouterBias);
    const int64_t width = config_.moe_intermediate_size;
    if (gguf() && find(TensorId::kExpertGate) == nullptr && find(TensorId::kExpertGateUp) != nullptr) {
      const FileTensor& both = *get(TensorId::kExpertGateUp);
      w.gate = stacked(both, config_.n_experts, 0, 2 * width, width, config_.hidden_size);
      w.up = stacked(both, config_.n_experts, width, 2 * width, width, config_.hidden_size);
    } else {
      w.gate = experts(TensorId::kExpertGate, gguf() ? name_of(TensorId::kExpertGateUp) : "");
      w.up = experts(TensorId::kExpertUp);
    }
    w.down = experts(TensorId::kExpertDown);
    if (needs(TensorId::kSharedGate)) {
      w.shared = {matrix(TensorId::kSharedGate), matrix(TensorId::kSharedUp), matrix(TensorId::kSharedDown)};
    }
    return w;
  }

  QMatsView experts(TensorId id, const std::string& instead = {}) {
    const std::vector<int64_t> shape = shape_of(id);
    const int64_t n = config_.n_experts;
    const int64_t rows = shape[shape.size() - 2];
    const int64_t cols = shape.back();
    if (gguf()) {
      const FileTensor* tensor = get(id, 0, instead);
      return tensor == nullptr ? QMatsView{} : stacked(*tensor, n, 0, rows, rows, cols);
    }
    const FileTensor* first = nullptr;
    const std::span<const std::byte*> data = memory_.pointers(n);
    for (int64_t e = 0; e < n; ++e) {
      const FileTensor* tensor = get(id, e);
      if (tensor == nullptr) continue;
      if (first == nullptr) first = tensor;
      if (tensor->type != first->type) {
        fail(ErrorCode::kUnsupported, "{}: tensor {} has type {}, expected {} as {} has", subject_, quote(tensor->name),
             tensor->type_name, first->type_name, quote(first->name));
      }
      data[static_cast<size_t>(e)] = tensor->bytes.data();
    }
    if (first == nullptr) return {};
    return {first->type->type, data, rows, cols, row_bytes(first->type->type, cols)};
  }

  /// Makes -exp(A_log) of what the files hold. GGUF files hold it already, but for early ones with A_log itself: as
  /// soon as one value of the model is not negative, all are taken for A_log.
  void finish_decay_rates() {
    bool raw = !gguf();
    for (const DecayRate& rate : decay_rates_) {
      if (gguf()) {
        raw = raw || std::any_of(rate.values.begin(), rate.values.end(), [](float x) { return !std::signbit(x); });
      }
    }
    for (const DecayRate& rate : decay_rates_) {
      for (size_t h = 0; h < rate.values.size(); ++h) {
        float& a = rate.values[h];
        const float found = a;
        if (raw) a = static_cast<float>(-std::exp(static_cast<double>(a)));
        if (std::isfinite(found) && std::isfinite(a)) continue;
        layer_ = rate.layer;
        fail(ErrorCode::kFormat, "{}: tensor {} is {} for head {}, expected {}", subject_,
             name_of(TensorId::kDecayRate), found, h, raw ? "a logarithm of at most 88" : "a finite number");
      }
    }
    if (raw && gguf() && !decay_rates_.empty()) {
      warnings_.push_back(fmt::format("{}: {} holds values that are not negative: taken for A_log, not -exp(A_log)",
                                      subject_, tensor_spec(TensorId::kDecayRate).gguf));
    }
  }

  void set_aside(TensorId id) {
    if (FileTensor* tensor = find(id)) tensor->known = true;
  }

  void fail_if_missing() const {
    if (missing_.empty()) return;
    const size_t shown = std::min(missing_.size(), kMaxNamesShown);
    const std::string rest = missing_.size() > shown ? fmt::format(" and {} more", missing_.size() - shown) : "";
    fail(ErrorCode::kFormat, "{}: {} {} missing: {}{}", subject_, missing_.size(),
         missing_.size() == 1 ? "tensor is" : "tensors are",
         fmt::join(missing_.begin(), missing_.begin() + static_cast<std::ptrdiff_t>(shown), ", "), rest);
  }

  /// Scales that lie beside quantised weights would be left out of the product: refuse rather than compute nonsense.
  void refuse_side_tensors() const {
    for (const FileTensor& tensor : table_.tensors()) {
      for (const std::string_view ending : {".scale", ".input_scale", "_scale", "_scale_inv", "_packed"}) {
        if (tensor.name.ends_with(ending)) {
          fail(ErrorCode::kUnsupported,
               "{}: tensor {}: weights with separate scale tensors are not supported by this version, use another "
               "quantisation",
               subject_, quote(tensor.name));
        }
      }
    }
  }

  void report_unused() const {
    std::vector<std::string> names;
    for (const FileTensor& tensor : table_.tensors()) {
      if (!tensor.known) names.push_back(quote(tensor.name));
    }
    if (names.empty()) return;
    const size_t shown = std::min(names.size(), kMaxNamesShown);
    const std::string rest = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
    warnings_.push_back(
        fmt::format("{}: {} {} not used: {}{}", subject_, names.size(), names.size() == 1 ? "tensor is" : "tensors are",
                    fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "), rest));
  }

  struct DecayRate {
    int64_t layer;
    std::span<float> values;
  };

  const ModelConfig& config_;
  const std::string& subject_;
  TensorTable& table_;
  OwnedMemory& memory_;
  std::vector<std::string>& warnings_;
  int64_t layer_ = 0;  // the one being bound
  std::vector<std::string> missing_;
  std::vector<DecayRate> decay_rates_;
};

}  // namespace

ModelWeights bind_weights(const ModelConfig& config, const std::string& subject, TensorTable& table,
                          OwnedMemory& memory, std::vector<std::string>& warnings) {
  return Binder(config, subject, table, memory, warnings).bind();
}

}  // namespace kda
