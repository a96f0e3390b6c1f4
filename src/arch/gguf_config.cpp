// Metadata of a GGUF file -> ModelConfig. Files in the wild leave keys out or get them wrong; where a tensor's shape
// says the same, the shape wins.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "arch/model_config.h"
#include "arch/tensor_schema.h"
#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"

namespace kda {

namespace {

constexpr std::string_view kArchitecture = "kimi-linear";
constexpr int64_t kMaxBlocks = int64_t{1} << 16;  // bounds what is allocated before the tensors are looked at
constexpr int64_t kGatingSigmoid = 2;

class Reader {
 public:
  Reader(const GgufModel& model, std::vector<std::string>& warnings)
      : model_(model), file_(model.main()), subject_("gguf: " + file_.name()), warnings_(warnings) {}

  ModelConfig read() {
    check_architecture();
    c_.architecture = kArchitecture;
    c_.name = std::string(file_.get_string("general.name").value_or(""));
    read_layers();
    read_sizes();
    if (c_.count(AttentionKind::kKda) > 0) read_kda();
    if (c_.count(AttentionKind::kMla) > 0) read_mla();
    read_feed_forward();
    validate(c_, subject_);
    return std::move(c_);
  }

 private:
  static std::string key(std::string_view name) { return fmt::format("{}.{}", kArchitecture, name); }

  [[nodiscard]] std::optional<int64_t> integer(std::string_view name) const { return file_.get_int(key(name)); }
  [[nodiscard]] int64_t required(std::string_view name) const {
    const std::optional<int64_t> value = integer(name);
    if (!value) fail(ErrorCode::kFormat, "{}: metadata key {} is missing", subject_, key(name));
    return *value;
  }
  [[nodiscard]] std::optional<float> number(std::string_view name) const {
    const std::optional<double> value = file_.get_float(key(name));
    if (!value) return std::nullopt;
    if (!(std::abs(*value) <= std::numeric_limits<float>::max())) {
      fail(ErrorCode::kFormat, "{}: {} is {}, expected a number that fits 32 bits", subject_, key(name), *value);
    }
    return static_cast<float>(*value);
  }
  [[nodiscard]] bool is_array(std::string_view name) const {
    const GgufValue* value = file_.find(key(name));
    return value != nullptr && value->type == GgufType::kArray;
  }
  /// One value a layer, from an array or from a scalar repeated. Empty when absent.
  [[nodiscard]] std::vector<int64_t> per_layer(std::string_view name) const {
    std::optional<std::vector<int64_t>> values = file_.get_ints(key(name));
    if (!values) return {};
    if (!is_array(name)) return std::vector<int64_t>(c_.layers.size(), values->front());
    if (values->size() != c_.layers.size()) {
      fail(ErrorCode::kFormat, "{}: {} has {} elements, expected one for each of the {} layers", subject_, key(name),
           values->size(), c_.layers.size());
    }
    return *std::move(values);
  }

  [[nodiscard]] const GgufTensor* find(TensorId id, int64_t layer) const {
    const TensorSpec& spec = tensor_spec(id);
    const GgufTensor* tensor = model_.find_tensor(tensor_name(spec.gguf, layer));
    if (tensor == nullptr && !spec.gguf_old.empty()) tensor = model_.find_tensor(tensor_name(spec.gguf_old, layer));
    return tensor;
  }
  /// Size of a dimension (0 is the fastest) of a tensor that the metadata key `for_key` can be derived from.
  [[nodiscard]] int64_t derive(TensorId id, int64_t layer, int dim, std::string_view for_key) const {
    const GgufTensor* tensor = find(id, layer);
    if (tensor == nullptr) {
      fail(ErrorCode::kFormat, "{}: tensor {} is missing, needed because the metadata do not tell {}", subject_,
           tensor_name(tensor_spec(id).gguf, layer), for_key);
    }
    return tensor->ne[dim];
  }
  void warn(std::string text) { warnings_.push_back(fmt::format("{}: {}", subject_, text)); }

  [[nodiscard]] int64_t first_layer(AttentionKind kind) const {
    const auto it =
        std::find_if(c_.layers.begin(), c_.layers.end(), [kind](const LayerConfig& l) { return l.attention == kind; });
    return it - c_.layers.begin();
  }

  void check_architecture() const {
    const std::optional<std::string_view> found = file_.get_string("general.architecture");
    if (!found) fail(ErrorCode::kFormat, "{}: metadata key general.architecture is missing", subject_);
    if (*found == kArchitecture) return;
    if (*found == "kimi-k3") {
      fail(ErrorCode::kUnsupported,
           "{}: architecture is {}: Kimi K3 features are not supported by this version, supported is \"{}\"", subject_,
           quote(*found), kArchitecture);
    }
    fail(ErrorCode::kUnsupported, "{}: architecture is {}, supported by this version is \"{}\"", subject_,
         quote(*found), kArchitecture);
  }

  /// A layer is KDA when its head_count_kv is 0. Files with a scalar there, or with no 0 at all, do not tell; their
  /// tensors do.
  void read_layers() {
    const int64_t n_layers = required("block_count");
    if (n_layers < 1 || n_layers > kMaxBlocks) {
      fail(ErrorCode::kFormat, "{}: {} is {}, expected 1 to {}", subject_, key("block_count"), n_layers, kMaxBlocks);
    }
    if (const int64_t n = integer("nextn_predict_layers").value_or(0); n != 0) {
      fail(ErrorCode::kUnsupported,
           "{}: {} is {}, expected 0: layers that predict several tokens are not supported by this version", subject_,
           key("nextn_predict_layers"), n);
    }
    c_.layers.resize(static_cast<size_t>(n_layers));

    const std::vector<int64_t> kv_heads = per_layer("attention.head_count_kv");
    const bool told =
        is_array("attention.head_count_kv") && std::find(kv_heads.begin(), kv_heads.end(), 0) != kv_heads.end();
    const int64_t n_dense = integer("leading_dense_block_count").value_or(0);
    for (int64_t i = 0; i < n_layers; ++i) {
      LayerConfig& layer = c_.layers[static_cast<size_t>(i)];
      const bool kda = told ? kv_heads[static_cast<size_t>(i)] == 0 : find(TensorId::kDecayRate, i) != nullptr;
      layer.attention = kda ? AttentionKind::kKda : AttentionKind::kMla;
      const bool moe =
          find(TensorId::kRouter, i) != nullptr || (i >= n_dense && find(TensorId::kDenseGate, i) == nullptr);
      layer.ffn = moe ? FfnKind::kMoe : FfnKind::kDense;
    }
  }

  void read_sizes() {
    c_.hidden_size = required("embedding_length");
    c_.context_length = required("context_length");
    const std::optional<float> eps = number("attention.layer_norm_rms_epsilon");
    if (!eps) {
      fail(ErrorCode::kFormat, "{}: metadata key {} is missing", subject_, key("attention.layer_norm_rms_epsilon"));
    }
    c_.rms_norm_eps = *eps;

    c_.vocab_size = derive(TensorId::kTokenEmbedding, 0, 1, "the vocabulary size");
    if (const std::optional<int64_t> n = integer("vocab_size"); n && *n != c_.vocab_size) {
      warn(fmt::format("{} is {}, but {} has {} rows: the tensor is right", key("vocab_size"), *n,
                       tensor_spec(TensorId::kTokenEmbedding).gguf, c_.vocab_size));
    }
    if (const GgufValue* tokens = file_.find("tokenizer.ggml.tokens")) {
      const GgufArray* array = std::get_if<GgufArray>(&tokens->value);
      if (array != nullptr && array->count != static_cast<uint64_t>(c_.vocab_size)) {
        warn(fmt::format("the vocabulary lists {} tokens, but {} has {} rows: the surplus cannot be used", array->count,
                         tensor_spec(TensorId::kTokenEmbedding).gguf, c_.vocab_size));
      }
    }
    c_.tied_embeddings = find(TensorId::kOutput, 0) == nullptr;
    if (c_.tied_embeddings) {
      warn(fmt::format("{} is missing: {} is used in its place", tensor_spec(TensorId::kOutput).gguf,
                       tensor_spec(TensorId::kTokenEmbedding).gguf));
    }
  }

  void read_kda() {
    const int64_t layer = first_layer(AttentionKind::kKda);
    // There is no key for it. Any layout of ssm_a has one element a head.
    const GgufTensor* a = find(TensorId::kDecayRate, layer);
    c_.kda_heads = a != nullptr ? a->n_elements() : derive(TensorId::kBeta, layer, 1, "the number of KDA heads");
    const std::optional<int64_t> head_dim = integer("kda.head_dim");
    c_.kda_head_dim = head_dim ? *head_dim : derive(TensorId::kKdaNorm, layer, 0, key("kda.head_dim"));
    const std::optional<int64_t> taps = integer("ssm.conv_kernel");
    c_.conv_kernel = taps ? *taps : derive(TensorId::kConvQ, layer, 0, key("ssm.conv_kernel"));
  }

  void read_mla() {
    const int64_t layer = first_layer(AttentionKind::kMla);
    const std::vector<int64_t> heads = per_layer("attention.head_count");
    if (heads.empty()) {
      fail(ErrorCode::kFormat, "{}: metadata key {} is missing", subject_, key("attention.head_count"));
    }
    for (int64_t i = 0; i < c_.n_layers(); ++i) {  // entries of KDA layers may be 0
      if (c_.layers[static_cast<size_t>(i)].attention != AttentionKind::kMla) continue;
      const int64_t n = heads[static_cast<size_t>(i)];
      if (n < 1 || (c_.n_heads != 0 && n != c_.n_heads)) {
        fail(ErrorCode::kFormat, "{}: {} of layer {} is {}, expected {}", subject_, key("attention.head_count"), i, n,
             c_.n_heads == 0 ? "at least 1" : fmt::format("{} as in the layers before", c_.n_heads));
      }
      c_.n_heads = n;
    }

    const std::optional<int64_t> q_rank = integer("attention.q_lora_rank");
    if (q_rank) {
      c_.q_lora_rank = *q_rank;
    } else if (find(TensorId::kMlaQNorm, layer) != nullptr) {
      c_.q_lora_rank = derive(TensorId::kMlaQNorm, layer, 0, key("attention.q_lora_rank"));
    }
    const std::optional<int64_t> kv_rank = integer("attention.kv_lora_rank");
    c_.kv_lora_rank = kv_rank ? *kv_rank : derive(TensorId::kMlaKvNorm, layer, 0, key("attention.kv_lora_rank"));

    c_.qk_rope_head_dim = derive(TensorId::kMlaKvDown, layer, 1, "the positional width") - c_.kv_lora_rank;
    if (const std::optional<int64_t> n = integer("rope.dimension_count"); n && *n != c_.qk_rope_head_dim) {
      warn(fmt::format("{} is {}, but {} has {} rows beside the {} of the latent: the tensor is right",
                       key("rope.dimension_count"), *n, tensor_name(tensor_spec(TensorId::kMlaKvDown).gguf, layer),
                       c_.qk_rope_head_dim, c_.kv_lora_rank));
    }

    const std::optional<int64_t> key_length = integer("attention.key_length_mla");
    const TensorId q = c_.q_lora_rank > 0 ? TensorId::kMlaQUp : TensorId::kMlaQ;
    c_.qk_nope_head_dim =
        (key_length ? *key_length : derive(q, layer, 1, key("attention.key_length_mla")) / c_.n_heads) -
        c_.qk_rope_head_dim;
    // attention.value_length is the configuration's unused head_dim in many files.
    const std::optional<int64_t> value_length = integer("attention.value_length_mla");
    c_.v_head_dim = value_length
                        ? *value_length
                        : derive(TensorId::kMlaOutput, layer, 0, key("attention.value_length_mla")) / c_.n_heads;
  }

  /// The value of the layers of one kind, which must agree; 0 when the key is absent.
  [[nodiscard]] int64_t common_length(std::string_view name, FfnKind kind) const {
    const std::vector<int64_t> values = per_layer(name);
    int64_t result = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (c_.layers[i].ffn != kind) continue;
      if (result != 0 && values[i] != result) {
        fail(ErrorCode::kUnsupported, "{}: {} is {} in layer {} and {} before, expected one value", subject_, key(name),
             values[i], i, result);
      }
      result = values[i];
    }
    return result;
  }

  void read_feed_forward() {
    const auto first = [this](FfnKind kind) {
      const auto it =
          std::find_if(c_.layers.begin(), c_.layers.end(), [kind](const LayerConfig& l) { return l.ffn == kind; });
      return it == c_.layers.end() ? int64_t{-1} : int64_t{it - c_.layers.begin()};
    };
    if (const int64_t dense = first(FfnKind::kDense); dense >= 0) {
      c_.intermediate_size = common_length("feed_forward_length", FfnKind::kDense);
      if (c_.intermediate_size == 0) {
        c_.intermediate_size = derive(TensorId::kDenseGate, dense, 1, key("feed_forward_length"));
      }
    }
    if (const int64_t moe = first(FfnKind::kMoe); moe >= 0) read_moe(moe);
  }

  void read_moe(int64_t layer) {
    const std::optional<int64_t> gating = integer("expert_gating_func");
    if (!gating) warn(fmt::format("{} is missing: sigmoid is assumed", key("expert_gating_func")));
    if (gating && *gating != kGatingSigmoid) {
      fail(ErrorCode::kUnsupported, "{}: {} is {}, supported by this version is {} (sigmoid)", subject_,
           key("expert_gating_func"), *gating, kGatingSigmoid);
    }

    const std::optional<int64_t> n_experts = integer("expert_count");
    c_.n_experts = n_experts ? *n_experts : derive(TensorId::kRouter, layer, 1, key("expert_count"));
    c_.n_experts_used = required("expert_used_count");
    c_.moe_intermediate_size = common_length("expert_feed_forward_length", FfnKind::kMoe);
    if (c_.moe_intermediate_size == 0) {
      c_.moe_intermediate_size = derive(TensorId::kExpertDown, layer, 0, key("expert_feed_forward_length"));
    }
    read_shared_experts(layer);

    read_groups();
    c_.renormalize_experts = file_.get_bool(key("expert_weights_norm")).value_or(true);
    const std::optional<float> scale = number("expert_weights_scale");
    if (!scale) warn(fmt::format("{} is missing: 1 is assumed", key("expert_weights_scale")));
    // 0 is how writers say "none".
    c_.routed_scaling_factor = scale && *scale != 0.0F ? *scale : 1.0F;
  }

  void read_groups() {
    const int64_t groups = std::max(integer("expert_group_count").value_or(1), int64_t{1});
    const int64_t used = std::max(integer("expert_group_used_count").value_or(1), int64_t{1});
    // Converters write the second key but not the first for models without groups. Guessing would change the routing.
    if (groups == 1 && used > 1) {
      fail(ErrorCode::kFormat, "{}: {} is {}, expected 1 or {} beside it", subject_, key("expert_group_used_count"),
           used, key("expert_group_count"));
    }
    c_.n_expert_groups = groups;
    c_.n_expert_groups_used = used;
  }

  void read_shared_experts(int64_t layer) {
    const std::optional<int64_t> told = integer("expert_shared_count");
    const GgufTensor* down = find(TensorId::kSharedDown, layer);
    const bool any =
        down != nullptr || find(TensorId::kSharedGate, layer) != nullptr || find(TensorId::kSharedUp, layer) != nullptr;
    if (!any) {
      c_.n_shared_experts = 0;
      if (told.value_or(0) != 0) {
        warn(fmt::format("{} is {}, but there is no {}: no shared experts are used", key("expert_shared_count"), *told,
                         tensor_name(tensor_spec(TensorId::kSharedDown).gguf, layer)));
      }
      return;
    }
    if (told && *told != 0) {
      c_.n_shared_experts = *told;
      return;
    }
    const int64_t width = derive(TensorId::kSharedDown, layer, 0, key("expert_shared_count"));
    if (c_.moe_intermediate_size < 1 || width % c_.moe_intermediate_size != 0) {
      fail(ErrorCode::kFormat, "{}: {} has rows of {}, expected a multiple of {} ({})", subject_,
           tensor_name(tensor_spec(TensorId::kSharedDown).gguf, layer), width, c_.moe_intermediate_size,
           key("expert_feed_forward_length"));
    }
    c_.n_shared_experts = width / c_.moe_intermediate_size;
  }

  const GgufModel& model_;
  const GgufFile& file_;
  std::string subject_;
  std::vector<std::string>& warnings_;
  ModelConfig c_;
};

}  // namespace

ModelConfig read_gguf_config(const GgufModel& model, std::vector<std::string>& warnings) {
  return Reader(model, warnings).read();
}

}  // namespace kda
