#include "support/tiny_model.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/half.h"
#include "quant/codec.h"

namespace kda::test {

namespace {

/// Random tensors of values k * 2^e with |k| < 128: exact in every plain type.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  TinyTensor matrix(int64_t rows, int64_t cols, double spread) {
    const double unit = std::exp2(std::round(std::log2(spread / 73.0)));  // 73: deviation of -127..127
    return fill({rows, cols}, -127, 127, unit);
  }
  TinyTensor matrix(int64_t rows, int64_t cols) { return matrix(rows, cols, std::pow(cols, -0.5)); }
  TinyTensor near_one(int64_t n) {
    TinyTensor t = fill({n}, -12, 12, 1.0 / 64);
    for (float& x : t.values) x += 1.0F;
    return t;
  }
  TinyTensor fill(std::vector<int64_t> shape, int low, int high, double unit) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    TinyTensor t{std::move(shape), std::vector<float>(static_cast<size_t>(n))};
    for (float& x : t.values) {
      const auto step = static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
      x = static_cast<float>((low + step) * unit);
    }
    return t;
  }

 private:
  std::mt19937 random_;
};

std::vector<std::byte> to_bytes(const void* data, size_t size) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), data, size);
  return bytes;
}

std::string dtype_name(TensorType type) { return std::string(type_info(type).name); }

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

/// Turns the tensors of a TinyModel into those of a GGUF file.
class GgufTensors {
 public:
  struct Entry {
    std::string name;
    TensorType type;
    std::vector<int64_t> ne;
    std::vector<std::byte> bytes;
  };

  GgufTensors(const TinyModel& model, const TinyGgufOptions& options)
      : model_(model), m_(model.options()), o_(options) {}

  std::vector<Entry> make() {
    add("token_embd.weight", "model.embed_tokens.weight", o_.matrix_type);
    add("output_norm.weight", "model.norm.weight", o_.vector_type);
    if (model_.tensors.count("lm_head.weight") != 0) add("output.weight", "lm_head.weight", o_.matrix_type);
    for (int64_t i = 0; i < m_.n_layers; ++i) {
      from_ = fmt::format("model.layers.{}.", i);
      to_ = fmt::format("blk.{}.", i);
      layer("attn_norm.weight", "input_layernorm.weight", o_.vector_type);
      layer("ffn_norm.weight", "post_attention_layernorm.weight", o_.vector_type);
      if (model_.is_mla(i)) {
        mla();
      } else {
        kda();
      }
      if (i < m_.first_moe) {
        for (const char* part : {"gate", "up", "down"})
          layer(fmt::format("ffn_{}.weight", part), fmt::format("mlp.{}_proj.weight", part), o_.matrix_type);
      } else {
        moe();
      }
    }
    return std::move(entries_);
  }

 private:
  const TinyTensor& source(const std::string& name) const { return model_.tensors.at(name); }

  /// shape slowest first.
  void put(const std::string& name, TensorType type, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    if (o_.omit.count(name) != 0) return;
    const int64_t cols = shape.back();
    if (cols % type_info(type).block_elements != 0) type = TensorType::kF32;
    entries_.push_back({name, type, {shape.rbegin(), shape.rend()}, encode(type, values, cols)});
  }
  void add(const std::string& to, const std::string& from, TensorType type) {
    put(to, type, source(from).shape, source(from).values);
  }
  void layer(const std::string& to, const std::string& from, TensorType type) { add(to_ + to, from_ + from, type); }

  void kda() {
    const std::string attn = "self_attn.";
    if (o_.fused_qkv) {
      std::vector<float> rows;
      for (const char* part : {"q", "k", "v"}) {
        const TinyTensor& t = source(from_ + attn + part + "_proj.weight");
        rows.insert(rows.end(), t.values.begin(), t.values.end());
      }
      put(to_ + "attn_qkv.weight", o_.matrix_type, {3 * m_.kda_heads * m_.kda_head_dim, m_.hidden}, rows);
    } else {
      for (const char* part : {"q", "k", "v"})
        layer(fmt::format("attn_{}.weight", part), fmt::format("self_attn.{}_proj.weight", part), o_.matrix_type);
    }
    const int64_t width = m_.kda_heads * m_.kda_head_dim;
    for (const char* part : {"q", "k", "v"}) {
      std::vector<int64_t> shape = {width, m_.taps};
      if (o_.conv_dims > 2) shape = {width, 1, m_.taps};
      if (o_.conv_dims > 3) shape = {1, width, 1, m_.taps};
      put(fmt::format("{}ssm_conv1d_{}.weight", to_, part), o_.vector_type, shape,
          source(from_ + attn + part + "_conv1d.weight").values);
    }
    layer("ssm_f_a.weight", attn + "f_a_proj.weight", o_.matrix_type);
    layer("ssm_f_b.weight", attn + "f_b_proj.weight", o_.matrix_type);
    layer("ssm_beta.weight", attn + "b_proj.weight", o_.matrix_type);
    std::vector<float> a = source(from_ + attn + "A_log").values;
    if (!o_.raw_decay)
      for (float& x : a) x = static_cast<float>(-std::exp(static_cast<double>(x)));
    std::vector<int64_t> a_shape = {m_.kda_heads};
    if (o_.decay_dims > 1) a_shape = {m_.kda_heads, 1};
    if (o_.decay_dims > 2) a_shape = {1, 1, m_.kda_heads, 1};
    put(to_ + "ssm_a", TensorType::kF32, a_shape, a);
    layer(o_.old_names ? "ssm_dt" : "ssm_dt.bias", attn + "dt_bias", o_.vector_type);
    layer("ssm_g_a.weight", attn + "g_a_proj.weight", o_.matrix_type);
    layer("ssm_g_b.weight", attn + "g_b_proj.weight", o_.matrix_type);
    layer("ssm_norm.weight", attn + "o_norm.weight", o_.vector_type);
    layer("attn_output.weight", attn + "o_proj.weight", o_.matrix_type);
  }

  void mla() {
    const std::string attn = "self_attn.";
    if (m_.q_rank > 0) {
      layer("attn_q_a.weight", attn + "q_a_proj.weight", o_.matrix_type);
      layer("attn_q_a_norm.weight", attn + "q_a_layernorm.weight", o_.vector_type);
      layer("attn_q_b.weight", attn + "q_b_proj.weight", o_.matrix_type);
    } else {
      layer("attn_q.weight", attn + "q_proj.weight", o_.matrix_type);
    }
    layer("attn_kv_a_mqa.weight", attn + "kv_a_proj_with_mqa.weight", o_.matrix_type);
    layer("attn_kv_a_norm.weight", attn + "kv_a_layernorm.weight", o_.vector_type);
    using KvUp = TinyGgufOptions::KvUp;
    if (o_.kv_up == KvUp::kUnsplit || o_.kv_up == KvUp::kBoth)
      layer("attn_kv_b.weight", attn + "kv_b_proj.weight", o_.matrix_type);
    if (o_.kv_up != KvUp::kUnsplit) split_kv(source(from_ + attn + "kv_b_proj.weight").values);
    layer("attn_output.weight", attn + "o_proj.weight", o_.matrix_type);
  }

  /// kv: a head's `nope` key rows, then its `value` value rows, each of kv_rank.
  void split_kv(const std::vector<float>& kv) {
    std::vector<float> k;
    std::vector<float> v;
    const auto at = [&](int64_t head, int64_t row, int64_t r) {
      return kv[static_cast<size_t>((head * (m_.nope + m_.value) + row) * m_.kv_rank + r)];
    };
    for (int64_t h = 0; h < m_.heads; ++h) {
      for (int64_t r = 0; r < m_.kv_rank; ++r)
        for (int64_t n = 0; n < m_.nope; ++n) k.push_back(at(h, n, r));
      for (int64_t n = 0; n < m_.value; ++n)
        for (int64_t r = 0; r < m_.kv_rank; ++r) v.push_back(at(h, m_.nope + n, r));
    }
    std::vector<int64_t> k_shape = {m_.heads, m_.kv_rank, m_.nope};
    std::vector<int64_t> v_shape = {m_.heads, m_.value, m_.kv_rank};
    if (o_.kv_up == TinyGgufOptions::KvUp::kSplitFlat) {
      k_shape = {m_.heads * m_.kv_rank, m_.nope};
      v_shape = {m_.heads * m_.value, m_.kv_rank};
    }
    put(to_ + "attn_k_b.weight", o_.matrix_type, k_shape, k);
    put(to_ + "attn_v_b.weight", o_.matrix_type, v_shape, v);
  }

  void moe() {
    const std::string moe = "block_sparse_moe.";
    layer("ffn_gate_inp.weight", moe + "gate.weight", o_.router_type);
    layer(o_.old_names ? "exp_probs_b" : "exp_probs_b.bias", moe + "gate.e_score_correction_bias", o_.vector_type);
    const auto stack = [&](std::initializer_list<const char*> parts) {
      std::vector<float> all;
      for (int64_t e = 0; e < m_.experts; ++e)
        for (const char* part : parts) {
          const TinyTensor& t = source(fmt::format("{}{}experts.{}.{}.weight", from_, moe, e, part));
          all.insert(all.end(), t.values.begin(), t.values.end());
        }
      return all;
    };
    if (o_.fused_gate_up) {
      put(to_ + "ffn_gate_up_exps.weight", o_.matrix_type, {m_.experts, 2 * m_.expert_ffn, m_.hidden},
          stack({"w1", "w3"}));
    } else {
      put(to_ + "ffn_gate_exps.weight", o_.matrix_type, {m_.experts, m_.expert_ffn, m_.hidden}, stack({"w1"}));
      put(to_ + "ffn_up_exps.weight", o_.matrix_type, {m_.experts, m_.expert_ffn, m_.hidden}, stack({"w3"}));
    }
    put(to_ + "ffn_down_exps.weight", o_.matrix_type, {m_.experts, m_.hidden, m_.expert_ffn}, stack({"w2"}));
    if (m_.shared_experts == 0) return;
    for (const char* part : {"gate", "up", "down"})
      layer(fmt::format("ffn_{}_shexp.weight", part), fmt::format("{}shared_experts.{}_proj.weight", moe, part),
            o_.matrix_type);
  }

  const TinyModel& model_;
  const TinyModelOptions& m_;
  const TinyGgufOptions& o_;
  std::string from_, to_;  // prefixes of the layer
  std::vector<Entry> entries_;
};

/// Adds keys of the architecture unless they are to be left out.
class GgufKeys {
 public:
  GgufKeys(GgufWriter& writer, const std::set<std::string>& omit) : writer_(writer), omit_(omit) {}

  void text(const std::string& key, const std::string& value) {
    if (omit_.count(key) == 0) writer_.add_string(key, value);
  }
  void count(const std::string& key, int64_t value) {
    if (wanted(key)) writer_.add_uint32(prefix(key), static_cast<uint32_t>(value));
  }
  void counts(const std::string& key, const std::vector<int32_t>& values) {
    if (wanted(key)) writer_.add_int32_array(prefix(key), values);
  }
  void number(const std::string& key, float value) {
    if (wanted(key)) writer_.add_float32(prefix(key), value);
  }
  void flag(const std::string& key, bool value) {
    if (wanted(key)) writer_.add_bool(prefix(key), value);
  }

 private:
  static std::string prefix(const std::string& key) { return "kimi-linear." + key; }
  [[nodiscard]] bool wanted(const std::string& key) const { return omit_.count(prefix(key)) == 0; }

  GgufWriter& writer_;
  const std::set<std::string>& omit_;
};

void add_metadata(const TinyModel& model, const TinyGgufOptions& o, GgufWriter& writer) {
  const TinyModelOptions& m = model.options();
  GgufKeys keys(writer, o.omit);
  keys.text("general.architecture", "kimi-linear");
  keys.text("general.name", "tiny");
  keys.count("block_count", m.n_layers);
  keys.count("context_length", 4096);
  keys.count("embedding_length", m.hidden);
  keys.number("attention.layer_norm_rms_epsilon", 1e-5F);
  keys.count("expert_used_count", m.experts_used);

  std::vector<int32_t> heads, kv_heads, dense_lengths, expert_lengths;
  for (int64_t i = 0; i < m.n_layers; ++i) {
    using Kv = TinyGgufOptions::HeadCountKv;
    const bool mla = model.is_mla(i);
    const bool moe = i >= m.first_moe;
    heads.push_back(mla ? static_cast<int32_t>(m.heads) : 0);
    kv_heads.push_back(o.head_count_kv == Kv::kAllNonZero ? 1 : (mla ? (o.head_count_kv == Kv::kArray32 ? 32 : 1) : 0));
    dense_lengths.push_back(moe ? 0 : static_cast<int32_t>(m.ffn));
    expert_lengths.push_back(moe ? static_cast<int32_t>(m.expert_ffn) : 0);
  }
  if (o.head_count_array) {
    keys.counts("attention.head_count", heads);
  } else {
    keys.count("attention.head_count", m.heads);
  }
  switch (o.head_count_kv) {
    case TinyGgufOptions::HeadCountKv::kArray:
    case TinyGgufOptions::HeadCountKv::kArray32:
    case TinyGgufOptions::HeadCountKv::kAllNonZero:
      keys.counts("attention.head_count_kv", kv_heads);
      break;
    case TinyGgufOptions::HeadCountKv::kScalar:
      keys.count("attention.head_count_kv", m.heads);
      break;
    case TinyGgufOptions::HeadCountKv::kAbsent:
      break;
  }
  if (o.bogus_keys) {
    keys.count("attention.value_length", 72);
    keys.count("rope.dimension_count", 72);
  }
  if (m.groups > 1) {
    keys.count("expert_group_count", m.groups);
    keys.count("expert_group_used_count", m.groups_used);
  }
  if (!m.renormalize) keys.flag("expert_weights_norm", false);
  keys.number("expert_weights_scale", 2.446F);
  if (o.length_arrays) {
    keys.counts("feed_forward_length", dense_lengths);
    keys.counts("expert_feed_forward_length", expert_lengths);
  }
  if (o.listed_tokens > 0) {
    std::vector<std::string> tokens;
    for (int64_t i = 0; i < o.listed_tokens; ++i) tokens.push_back(fmt::format("token{}", i));
    writer.add_string("tokenizer.ggml.model", "gpt2");
    writer.add_string_array("tokenizer.ggml.tokens", tokens);
  }
  if (!o.optional_keys) return;

  keys.count("vocab_size", m.vocab);
  if (!o.length_arrays) {
    keys.count("feed_forward_length", m.ffn);
    keys.count("expert_feed_forward_length", m.expert_ffn);
  }
  if (!o.bogus_keys) {
    keys.count("attention.value_length", m.value);
    keys.count("rope.dimension_count", m.rope);
  }
  keys.number("rope.freq_base", 10000.0F);
  keys.count("attention.key_length", m.kv_rank + m.rope);
  keys.count("attention.key_length_mla", m.nope + m.rope);
  keys.count("attention.value_length_mla", m.value);
  keys.count("attention.kv_lora_rank", m.kv_rank);
  if (m.q_rank > 0) keys.count("attention.q_lora_rank", m.q_rank);
  keys.count("ssm.conv_kernel", m.taps);
  keys.count("kda.head_dim", m.kda_head_dim);
  keys.count("expert_count", m.experts);
  keys.count("expert_shared_count", m.shared_experts);
  keys.count("expert_gating_func", 2);
  if (m.groups == 1) keys.count("expert_group_used_count", 1);  // as the converter does
  keys.count("leading_dense_block_count", m.first_moe);
}

}  // namespace

std::vector<std::byte> encode(TensorType type, const std::vector<float>& values, int64_t cols) {
  if (type == TensorType::kF32) return to_bytes(values.data(), values.size() * sizeof(float));
  if (type == TensorType::kF16 || type == TensorType::kBF16) {
    std::vector<uint16_t> halves;
    for (const float x : values) halves.push_back(type == TensorType::kF16 ? float_to_f16(x) : float_to_bf16(x));
    return to_bytes(halves.data(), halves.size() * sizeof(uint16_t));
  }
  if (!can_quantize(type)) throw std::runtime_error("cannot write this type");
  const int64_t rows = static_cast<int64_t>(values.size()) / cols;
  std::vector<std::byte> bytes(static_cast<size_t>(rows * row_bytes(type, cols)));
  for (int64_t r = 0; r < rows; ++r) {
    quantize_row(type, values.data() + r * cols, bytes.data() + r * row_bytes(type, cols), cols);
  }
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<SafeTensorEntry>& entries) {
  OrderedJson header;
  header["__metadata__"] = {{"format", "pt"}};
  size_t at = 0;
  for (const SafeTensorEntry& e : entries) {
    header[e.name] = {{"dtype", e.dtype}, {"shape", e.shape}, {"data_offsets", {at, at + e.bytes.size()}}};
    at += e.bytes.size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const auto size = static_cast<uint64_t>(text.size());
  std::string file(reinterpret_cast<const char*>(&size), sizeof(size));
  file += text;
  for (const SafeTensorEntry& e : entries) file.append(reinterpret_cast<const char*>(e.bytes.data()), e.bytes.size());
  write_file(path, file);
}

TinyModel::TinyModel(const TinyModelOptions& options) : options_(options) {
  const TinyModelOptions& o = options_;
  Generator random(o.seed);
  const auto add = [this](const std::string& name, TinyTensor tensor) { tensors[name] = std::move(tensor); };
  const auto mlp = [&](const std::string& prefix, const char* gate, const char* up, const char* down, int64_t width) {
    add(prefix + gate + ".weight", random.matrix(width, o.hidden));
    add(prefix + up + ".weight", random.matrix(width, o.hidden));
    add(prefix + down + ".weight", random.matrix(o.hidden, width));
  };

  add("model.embed_tokens.weight", random.matrix(o.vocab, o.hidden, 1.0));
  add("model.norm.weight", random.near_one(o.hidden));
  if (!o.tied) add("lm_head.weight", random.matrix(o.vocab, o.hidden));
  for (int64_t i = 0; i < o.n_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const std::string attn = layer + "self_attn.";
    add(layer + "input_layernorm.weight", random.near_one(o.hidden));
    add(layer + "post_attention_layernorm.weight", random.near_one(o.hidden));
    if (is_mla(i)) {
      const int64_t query = o.heads * (o.nope + o.rope);
      if (o.q_rank > 0) {
        add(attn + "q_a_proj.weight", random.matrix(o.q_rank, o.hidden));
        add(attn + "q_a_layernorm.weight", random.near_one(o.q_rank));
        add(attn + "q_b_proj.weight", random.matrix(query, o.q_rank));
      } else {
        add(attn + "q_proj.weight", random.matrix(query, o.hidden));
      }
      add(attn + "kv_a_proj_with_mqa.weight", random.matrix(o.kv_rank + o.rope, o.hidden));
      add(attn + "kv_a_layernorm.weight", random.near_one(o.kv_rank));
      add(attn + "kv_b_proj.weight", random.matrix(o.heads * (o.nope + o.value), o.kv_rank));
      add(attn + "o_proj.weight", random.matrix(o.hidden, o.heads * o.value));
    } else {
      const int64_t width = o.kda_heads * o.kda_head_dim;
      for (const char* part : {"q", "k", "v"}) {
        add(attn + part + "_proj.weight", random.matrix(width, o.hidden));
        add(attn + part + "_conv1d.weight", random.fill({width, 1, o.taps}, -64, 64, 1.0 / 64));
      }
      add(attn + "A_log", random.fill({1, 1, o.kda_heads, 1}, 1, 88, 1.0 / 32));
      add(attn + "dt_bias", random.fill({width}, -110, -36, 1.0 / 16));
      add(attn + "f_a_proj.weight", random.matrix(o.kda_head_dim, o.hidden));
      add(attn + "f_b_proj.weight", random.matrix(width, o.kda_head_dim));
      add(attn + "b_proj.weight", random.matrix(o.kda_heads, o.hidden));
      add(attn + "g_a_proj.weight", random.matrix(o.kda_head_dim, o.hidden));
      add(attn + "g_b_proj.weight", random.matrix(width, o.kda_head_dim));
      add(attn + "o_norm.weight", random.near_one(o.kda_head_dim));
      add(attn + "o_proj.weight", random.matrix(o.hidden, width));
    }
    if (i < o.first_moe) {
      mlp(layer + "mlp.", "gate_proj", "up_proj", "down_proj", o.ffn);
      continue;
    }
    const std::string moe = layer + "block_sparse_moe.";
    add(moe + "gate.weight", random.matrix(o.experts, o.hidden));
    add(moe + "gate.e_score_correction_bias", random.fill({o.experts}, -25, 25, 1.0 / 128));
    for (int64_t e = 0; e < o.experts; ++e) mlp(fmt::format("{}experts.{}.", moe, e), "w1", "w3", "w2", o.expert_ffn);
    if (o.shared_experts > 0)
      mlp(moe + "shared_experts.", "gate_proj", "up_proj", "down_proj", o.shared_experts * o.expert_ffn);
  }

  std::vector<int64_t> kda_layers, full_layers;
  for (int64_t i = 0; i < o.n_layers; ++i) (is_mla(i) ? full_layers : kda_layers).push_back(i + 1);
  config = {{"architectures", Json::array({"KimiLinearForCausalLM"})},
            {"model_type", "kimi_linear"},
            {"vocab_size", o.vocab},
            {"hidden_size", o.hidden},
            {"intermediate_size", o.ffn},
            {"num_hidden_layers", o.n_layers},
            {"num_attention_heads", o.heads},
            {"num_key_value_heads", o.heads},
            {"head_dim", 72},
            {"q_lora_rank", o.q_rank > 0 ? Json(o.q_rank) : Json(nullptr)},
            {"kv_lora_rank", o.kv_rank},
            {"qk_nope_head_dim", o.nope},
            {"qk_rope_head_dim", o.rope},
            {"v_head_dim", o.value},
            {"mla_use_nope", true},
            {"num_experts", o.experts},
            {"num_experts_per_token", o.experts_used},
            {"num_shared_experts", o.shared_experts},
            {"moe_intermediate_size", o.expert_ffn},
            {"first_k_dense_replace", o.first_moe},
            {"moe_renormalize", o.renormalize},
            {"num_expert_group", o.groups},
            {"topk_group", o.groups_used},
            {"routed_scaling_factor", 2.446},
            {"rms_norm_eps", 1e-5},
            {"hidden_act", "silu"},
            {"tie_word_embeddings", o.tied},
            {"model_max_length", 4096}};
  config["linear_attn_config"] = {{"kda_layers", kda_layers},
                                  {"full_attn_layers", full_layers},
                                  {"num_heads", o.kda_heads},
                                  {"head_dim", o.kda_head_dim},
                                  {"short_conv_kernel_size", o.taps}};
}

void TinyModel::write_folder(const std::filesystem::path& folder, const TinyFolderOptions& options) const {
  write_file(folder / "config.json", config.dump(2));
  std::vector<SafeTensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    const bool keep = name.ends_with("A_log") || name.ends_with("_bias");
    const TensorType type = keep ? TensorType::kF32 : options.type;
    entries.push_back({name, dtype_name(type), tensor.shape, encode(type, tensor.values, tensor.shape.back())});
  }
  if (options.edit) options.edit(entries);
  if (options.n_files == 1) {
    write_safetensors(folder / "model.safetensors", entries);
    return;
  }
  Json map = Json::object();
  const auto n_files = static_cast<size_t>(options.n_files);
  for (size_t f = 0; f < n_files; ++f) {
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() * f / n_files);
    const auto last = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() * (f + 1) / n_files);
    const std::vector<SafeTensorEntry> part(first, last);
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, n_files);
    for (const SafeTensorEntry& e : part) map[e.name] = name;
    write_safetensors(folder / name, part);
  }
  write_file(folder / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

std::filesystem::path TinyModel::write_gguf(const std::filesystem::path& folder, const TinyGgufOptions& options) const {
  const std::vector<GgufTensors::Entry> entries = GgufTensors(*this, options).make();
  const auto n_files = static_cast<size_t>(options.n_files);
  std::filesystem::path first_path;
  for (size_t f = 0; f < n_files; ++f) {
    GgufWriter writer;
    writer.set_version(options.version);
    if (f == 0) {
      add_metadata(*this, options, writer);
      if (options.add_keys) options.add_keys(writer);
    }
    if (n_files > 1) {
      writer.add_uint16("split.no", static_cast<uint16_t>(f));
      writer.add_uint16("split.count", static_cast<uint16_t>(n_files));
      writer.add_int32("split.tensors.count", static_cast<int32_t>(entries.size()));
    }
    for (size_t i = entries.size() * f / n_files; i < entries.size() * (f + 1) / n_files; ++i)
      writer.add_tensor(entries[i].name, entries[i].type, entries[i].ne, entries[i].bytes);
    if (f + 1 == n_files && options.add_tensors) options.add_tensors(writer);
    const auto path = folder / (n_files == 1 ? "model.gguf" : fmt::format("model-{:05}-of-{:05}.gguf", f + 1, n_files));
    writer.write(path);
    if (f == 0) first_path = path;
  }
  return first_path;
}

}  // namespace kda::test
