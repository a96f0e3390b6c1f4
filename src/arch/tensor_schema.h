// What tensors a model has: one row each with its names, shapes and treatment. Nothing else knows a tensor's name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/model_config.h"

namespace kda {

enum class TensorId : uint8_t {
  kTokenEmbedding,
  kOutputNorm,
  kOutput,
  kAttentionNorm,
  kFfnNorm,
  // KDA
  kKdaQ,
  kKdaK,
  kKdaV,
  kKdaQkv,  // q, k and v rows in one
  kConvQ,
  kConvK,
  kConvV,
  kDecayDown,
  kDecayUp,
  kBeta,
  kDecayRate,  // A_log or -exp(A_log)
  kDtBias,
  kGateDown,
  kGateUp,
  kKdaNorm,
  kKdaOutput,
  // MLA
  kMlaQ,
  kMlaQDown,
  kMlaQNorm,
  kMlaQUp,
  kMlaKvDown,
  kMlaKvNorm,
  kMlaKvUp,  // a head: N key rows, then V value rows, each of R
  kMlaKUp,   // a head: [R, N], the key rows transposed
  kMlaVUp,   // a head: [V, R]
  kMlaOutput,
  // feed-forward
  kDenseGate,
  kDenseUp,
  kDenseDown,
  kRouter,
  kRouterBias,
  kExpertGate,
  kExpertUp,
  kExpertGateUp,  // an expert: gate rows, then up rows
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
};

/// Where a row applies.
enum class TensorScope : uint8_t {
  kModel,
  kUntied,  // the model, unless embeddings are tied
  kLayer,   // every layer
  kKda,     // layers of that kind
  kMla,
  kMlaDirectQ,   // without compressed queries
  kMlaLowRankQ,  // with
  kDense,
  kMoe,
  kShared,  // MoE layers, when there are shared experts
};

enum class TensorStorage : uint8_t {
  kMatrix,  // any weight type, used where it lies
  kVector,  // F32, F16 or BF16; few elements, used as float
};

/// What turns the Hugging Face tensor(s) into the GGUF one.
enum class TensorTransform : uint8_t {
  kNone,          // the same bytes; the shape may differ by dimensions of 1
  kNegExp,        // -exp(x) for each element
  kStackExperts,  // one tensor an expert -> one tensor, experts slowest
  kSplitHeads,    // the rows of kMlaKvUp: keys (transposed) and values apart
};

/// A symbolic dimension. Letters as in docs/model.md.
enum class Dim : uint8_t {
  kEnd,  // no further dimension
  kOne,
  kVocab,
  kHidden,        // D
  kKdaHeads,      // H of KDA
  kKdaHeadDim,    // K
  kKdaWidth,      // C = H*K
  kKdaQkv,        // 3*C
  kTaps,          // of the convolution
  kMlaHeads,      // H of MLA
  kMlaQuery,      // H*(N+P)
  kMlaQRank,      // Q
  kMlaKvDown,     // R+P
  kMlaLatent,     // R
  kMlaNope,       // N
  kMlaValue,      // V
  kMlaKvUp,       // H*(N+V)
  kMlaWidth,      // H*V
  kFfn,           // F of dense layers
  kExperts,       // E
  kExpertFfn,     // F of an expert
  kExpertGateUp,  // 2*F
  kSharedFfn,     // F of all shared experts together
};

using DimList = std::array<Dim, 4>;  // slowest first, padded with kEnd

/// A row. In names, # stands for the layer and * for the expert.
struct TensorSpec {
  TensorId id;
  TensorScope scope;
  TensorStorage storage;
  TensorTransform transform;
  bool alternative;           // only some GGUF files have it, in place of others
  std::string_view hf;        // empty: not in a Hugging Face folder
  DimList hf_dims;            // of one expert, where there are experts
  std::string_view gguf;      // as files are written today; empty: never in a GGUF file
  std::string_view gguf_old;  // as some older files have it, or empty
  DimList gguf_dims;
};

/// All rows, in the order of TensorId. Thread-safe, as all here.
[[nodiscard]] std::span<const TensorSpec> tensor_schema() noexcept;
[[nodiscard]] const TensorSpec& tensor_spec(TensorId id) noexcept;

/// True when a model of this configuration has the row in this layer (any layer, for rows of the model).
[[nodiscard]] bool applies(const TensorSpec& spec, const ModelConfig& config, int64_t layer) noexcept;

/// `pattern` of a row with the numbers put in.
[[nodiscard]] std::string tensor_name(std::string_view pattern, int64_t layer, int64_t expert = 0);

struct TensorMatch {
  const TensorSpec* spec;
  int64_t layer;  // 0 for tensors of the model
};

/// The row that a GGUF file's tensor of this name belongs to; of rows that share a name (attn_q of either kind of
/// layer) the first. nullopt for a name that the schema does not know.
[[nodiscard]] std::optional<TensorMatch> match_gguf_name(std::string_view name) noexcept;

/// Sizes in elements, slowest first.
[[nodiscard]] std::vector<int64_t> tensor_shape(const DimList& dims, const ModelConfig& config);

}  // namespace kda
