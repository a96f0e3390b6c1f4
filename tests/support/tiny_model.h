// Small random Kimi Linear checkpoints, written as a Hugging Face folder or as a GGUF file in every variant that files
// have. The same options and seed give the same weights in all of them. Names and layouts are spelt out here once more,
// from the descriptions of the formats, so that a mistake in the schema cannot hide.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/json.h"
#include "quant/tensor_type.h"

namespace kda::test {

struct TinyModelOptions {
  uint32_t seed = 1;
  int64_t vocab = 96;
  int64_t hidden = 64;
  int64_t n_layers = 4;
  std::set<int64_t> mla_layers = {2};  // from 0; the others are KDA
  int64_t kda_heads = 2;
  int64_t kda_head_dim = 32;
  int64_t taps = 4;
  int64_t heads = 3;
  int64_t q_rank = 0;  // 0: direct queries
  int64_t kv_rank = 32;
  int64_t nope = 32;
  int64_t rope = 16;
  int64_t value = 32;
  int64_t ffn = 96;
  int64_t first_moe = 1;
  int64_t experts = 6;
  int64_t experts_used = 2;
  int64_t shared_experts = 1;
  int64_t expert_ffn = 32;
  int64_t groups = 1;
  int64_t groups_used = 1;
  bool renormalize = true;
  bool tied = false;
};

struct TinyTensor {
  std::vector<int64_t> shape;  // slowest first
  std::vector<float> values;
};

/// A tensor on its way into a safetensors file.
struct SafeTensorEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

struct TinyFolderOptions {
  TensorType type = TensorType::kBF16;  // or kF32, kF16; A_log and the biases are F32
  int n_files = 1;
  std::function<void(std::vector<SafeTensorEntry>&)> edit = {};  // called before writing
};

struct TinyGgufOptions {
  enum class KvUp { kSplit, kSplitFlat, kUnsplit, kBoth };
  enum class HeadCountKv { kArray, kArray32, kAllNonZero, kScalar, kAbsent };

  /// Matrices: F32, F16, BF16 or what quantize_row writes; rows that are no whole number of blocks become F32.
  TensorType matrix_type = TensorType::kF32;
  TensorType vector_type = TensorType::kF32;  // or kF16, kBF16: norms, convolutions, biases, decay rates stay F32
  TensorType router_type = TensorType::kF32;
  KvUp kv_up = KvUp::kSplit;
  int conv_dims = 4;           // 2 to 4
  int decay_dims = 4;          // 1: [H], 2: [1, H], 4: [1, H, 1, 1]
  bool raw_decay = false;      // A_log in place of -exp(A_log)
  bool fused_qkv = false;      // of KDA layers
  bool fused_gate_up = false;  // of experts
  bool old_names = false;      // ssm_dt and exp_probs_b without .bias
  bool head_count_array = false;
  bool length_arrays = false;  // feed-forward lengths, one a layer
  HeadCountKv head_count_kv = HeadCountKv::kArray;
  bool optional_keys = true;  // false: leaves out every key that tensors tell or that has a default
  bool bogus_keys = false;    // value_length and rope.dimension_count of 72
  int64_t listed_tokens = 0;  // writes a vocabulary of that many entries
  uint32_t version = 3;
  int n_files = 1;
  std::set<std::string> omit = {};                    // keys and tensors to leave out
  std::function<void(GgufWriter&)> add_keys = {};     // to the first file
  std::function<void(GgufWriter&)> add_tensors = {};  // to the last file; bytes must outlive write_gguf
};

class TinyModel {
 public:
  explicit TinyModel(const TinyModelOptions& options = {});

  // Both may be changed before writing. Tensors carry the names of the Hugging Face checkpoint. All values are exact in
  // F32, F16 and BF16, so the type they are stored in does not change them.
  Json config;
  std::map<std::string, TinyTensor> tensors;

  [[nodiscard]] const TinyModelOptions& options() const noexcept { return options_; }
  [[nodiscard]] bool is_mla(int64_t layer) const { return options_.mla_layers.count(layer) != 0; }

  /// Writes config.json and the tensors into `folder`, which must exist.
  void write_folder(const std::filesystem::path& folder, const TinyFolderOptions& options = {}) const;
  /// Writes model.gguf, or model-00001-of-0000N.gguf and so on, into `folder`. Returns the path of the first.
  std::filesystem::path write_gguf(const std::filesystem::path& folder, const TinyGgufOptions& options = {}) const;

 private:
  TinyModelOptions options_;
};

/// The bytes of rows of `cols` values in any type that can be written.
[[nodiscard]] std::vector<std::byte> encode(TensorType type, const std::vector<float>& values, int64_t cols);

void write_safetensors(const std::filesystem::path& path, const std::vector<SafeTensorEntry>& entries);

}  // namespace kda::test
