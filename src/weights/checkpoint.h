// A model on disk, opened: configuration, tensors as checked views, vocabulary source. Owns the mapping.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arch/model_config.h"
#include "formats/hub.h"
#include "quant/matrix.h"

namespace kda {

class GgufModel;
class SafeTensorsModel;

/// A KDA layer's tensors; see layers/kda.h for their use. H heads, K channels a head, C = H*K, D hidden.
struct KdaWeights {
  QMatView q, k, v;                               // [C, D]
  std::span<const float> conv_q, conv_k, conv_v;  // [C, taps]; the last tap multiplies the current token
  QMatView f_a, f_b;                              // [K, D], [C, K]: decay gate
  QMatView beta;                                  // [H, D]
  std::span<const float> a;                       // [H]: -exp(A_log), negative
  std::span<const float> dt_bias;                 // [C]
  QMatView g_a, g_b;                              // [K, D], [C, K]: output gate
  std::span<const float> o_norm;                  // [K]
  QMatView o;                                     // [D, C]
};

/// An MLA layer's tensors. R latent, N nope, P positional, V value channels.
struct MlaWeights {
  QMatView q;                        // [H*(N+P), D], or empty with compressed queries
  QMatView q_a;                      // [Q, D], with compressed queries
  std::span<const float> q_a_norm;   // [Q]
  QMatView q_b;                      // [H*(N+P), Q]
  QMatView kv_a;                     // [R+P, D]
  std::span<const float> kv_a_norm;  // [R]
  QMatsView k_b;                     // a head: [R, N], turns q_nope into latent space
  QMatsView v_b;                     // a head: [V, R]
  QMatView o;                        // [D, H*V]
};

struct DenseFfnWeights {
  QMatView gate, up, down;  // [F, D], [F, D], [D, F]
};

struct MoeWeights {
  QMatView router;                     // [E, D]
  std::span<const float> router_bias;  // [E], for the choice only
  QMatsView gate, up, down;            // an expert: [F, D], [F, D], [D, F]
  DenseFfnWeights shared;              // empty views when there are no shared experts
};

struct LayerWeights {
  std::span<const float> attn_norm, ffn_norm;  // [D]
  KdaWeights kda;                              // the ones that the layer's kinds name are filled
  MlaWeights mla;
  DenseFfnWeights dense;
  MoeWeights moe;
};

struct ModelWeights {
  QMatView token_embd;                 // [vocab, D]
  QMatView output;                     // [vocab, D]; the same view when tied
  std::span<const float> output_norm;  // [D]
  std::vector<LayerWeights> layers;
};

/// One tensor as it lies in the file, for listings.
struct TensorListing {
  std::string name;
  std::string type;            // "Q4_K", "BF16"
  std::vector<int64_t> shape;  // GGUF: fastest first; folder: slowest first
  int64_t bytes = 0;
};

/// Immutable after open(); thread-safe. Everything that weights() shows lives as long as the checkpoint.
class Checkpoint {
 public:
  /// Opens, checks every tensor that the model needs against its expected shape, names what is missing, extra or of the
  /// wrong shape. Small vectors are converted to float and owned; matrices stay in the mapping.
  /// Throws Error(kNotFound | kIo | kFormat | kUnsupported).
  static std::unique_ptr<Checkpoint> open(const ModelLocation& location);
  ~Checkpoint();

  [[nodiscard]] const ModelLocation& location() const noexcept;
  [[nodiscard]] const ModelConfig& config() const noexcept;
  [[nodiscard]] const ModelWeights& weights() const noexcept;
  /// The model's Jinja chat template; empty when it has none.
  [[nodiscard]] const std::string& chat_template() const noexcept;
  /// nullptr unless the model is a GGUF file (set).
  [[nodiscard]] const GgufModel* gguf() const noexcept;
  /// nullptr unless the model is a Hugging Face folder.
  [[nodiscard]] const SafeTensorsModel* safetensors() const noexcept;
  [[nodiscard]] std::vector<TensorListing> tensors() const;
  /// Key and value as text, in file order (GGUF metadata, or the top level of config.json); long values shortened.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> metadata() const;
  /// Remarks that did not stop the loading.
  [[nodiscard]] std::span<const std::string> warnings() const noexcept;
  /// Bytes in the files of the tensors that weights() shows, and bytes of converted copies held in memory.
  [[nodiscard]] int64_t mapped_bytes() const noexcept;
  [[nodiscard]] int64_t owned_bytes() const noexcept;
  /// Number of weights, those of tied embeddings counted once.
  [[nodiscard]] int64_t n_parameters() const noexcept;
  /// Tells models apart: of the metadata, the tensors' names, types and shapes and a sample of the bytes of each. The
  /// same for copies of a file. Reads a page or two of each tensor; throws Error(kIo).
  [[nodiscard]] uint64_t fingerprint() const;
  /// Throws Error(kIo) when a file changed since it was opened.
  void check_unchanged() const;
  /// Reads every weight once; throws Error(kFormat) naming the first tensor that holds NaN or infinity, or
  /// Error(kInterrupted) when progress, asked now and then with bytes done and to do, returns false.
  void check_values(const std::function<bool(int64_t done, int64_t total)>& progress = {}) const;

 private:
  Checkpoint();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
