#include "convert/plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"

namespace kda {

namespace {

bool of_the_model(const TensorSpec& spec) noexcept {
  return spec.scope == TensorScope::kModel || spec.scope == TensorScope::kUntied;
}

PlannedTensor planned(const TensorSpec& spec, const ModelConfig& config, int64_t layer) {
  PlannedTensor tensor;
  tensor.name = tensor_name(spec.gguf, layer);
  tensor.ne = tensor_shape(spec.gguf_dims, config);
  std::reverse(tensor.ne.begin(), tensor.ne.end());
  tensor.spec = &spec;
  tensor.layer = layer;
  return tensor;
}

/// Fills in where a tensor's rows are. What is looked up here is there: the checkpoint was checked.
class FolderSources {
 public:
  FolderSources(const ModelConfig& config, TensorTable& table) : config_(config), table_(table) {}

  [[nodiscard]] RowSource of(const PlannedTensor& tensor) {
    const TensorSpec& spec = *tensor.spec;
    switch (spec.transform) {
      case TensorTransform::kNone:
        return {type_of(get(hf_row(spec), tensor.layer, 0)),
                RowTransform::kNone,
                {get(hf_row(spec), tensor.layer, 0).bytes.data()}};
      case TensorTransform::kNegExp:
        return {type_of(get(spec, tensor.layer, 0)), RowTransform::kNegExp, {get(spec, tensor.layer, 0).bytes.data()}};
      case TensorTransform::kStackExperts:
        return experts(spec, tensor.layer);
      case TensorTransform::kSplitHeads:
        return heads(spec, tensor.layer);
    }
    return {};
  }

 private:
  static TensorType type_of(const FileTensor& tensor) {
    KDA_CHECK(tensor.type != nullptr);
    return tensor.type->type;
  }

  /// Tied embeddings serve as the head too.
  [[nodiscard]] const TensorSpec& hf_row(const TensorSpec& spec) const noexcept {
    return spec.id == TensorId::kOutput && config_.tied_embeddings ? tensor_spec(TensorId::kTokenEmbedding) : spec;
  }

  const FileTensor& get(const TensorSpec& spec, int64_t layer, int64_t expert) {
    const FileTensor* tensor = table_.find(tensor_name(spec.hf, layer, expert));
    KDA_CHECK(tensor != nullptr);
    return *tensor;
  }

  RowSource experts(const TensorSpec& spec, int64_t layer) {
    RowSource out{type_of(get(spec, layer, 0)), RowTransform::kNone, {}};
    for (int64_t e = 0; e < config_.n_experts; ++e) out.pieces.push_back(get(spec, layer, e).bytes.data());
    return out;
  }

  /// A head of kv_b holds N key rows, then V value rows, each of R.
  RowSource heads(const TensorSpec& spec, int64_t layer) {
    const FileTensor& kv = get(tensor_spec(TensorId::kMlaKvUp), layer, 0);
    const bool keys = spec.id == TensorId::kMlaKUp;
    RowSource out{type_of(kv), keys ? RowTransform::kTranspose : RowTransform::kNone, {}};
    const int64_t bytes = row_bytes(out.type, config_.kv_lora_rank);
    for (int64_t h = 0; h < config_.n_heads; ++h) {
      const int64_t row = h * (config_.qk_nope_head_dim + config_.v_head_dim) + (keys ? 0 : config_.qk_nope_head_dim);
      out.pieces.push_back(kv.bytes.data() + row * bytes);
    }
    return out;
  }

  const ModelConfig& config_;
  TensorTable& table_;
};

}  // namespace

int64_t PlannedTensor::n_elements() const noexcept {
  int64_t n = 1;
  for (const int64_t size : ne) n *= size;
  return n;
}

bool PlannedTensor::quantisable() const noexcept {
  return spec != nullptr && spec->storage == TensorStorage::kMatrix && spec->id != TensorId::kRouter;
}

std::vector<PlannedTensor> list_tensors(const ModelConfig& config) {
  std::vector<PlannedTensor> out;
  for (const TensorSpec& spec : tensor_schema()) {
    if (of_the_model(spec) && !spec.alternative) out.push_back(planned(spec, config, 0));
  }
  for (int64_t layer = 0; layer < config.n_layers(); ++layer) {
    for (const TensorSpec& spec : tensor_schema()) {
      if (of_the_model(spec) || spec.alternative || !applies(spec, config, layer)) continue;
      out.push_back(planned(spec, config, layer));
    }
  }
  return out;
}

std::vector<PlannedTensor> plan_folder(const ModelConfig& config, TensorTable& table) {
  std::vector<PlannedTensor> out = list_tensors(config);
  FolderSources sources(config, table);
  for (PlannedTensor& tensor : out) tensor.source = sources.of(tensor);
  return out;
}

std::vector<PlannedTensor> plan_gguf(const GgufModel& model) {
  std::vector<PlannedTensor> out;
  for (const GgufFile& part : model.parts()) {
    for (const GgufTensor& found : part.tensors()) {
      if (!type_info(found.type).is_weight) {
        fail(ErrorCode::kUnsupported, "gguf: {}: tensor {} has type {}, expected a type of weights", part.name(),
             quote(found.name), type_info(found.type).name);
      }
      PlannedTensor tensor;
      tensor.name = found.name;
      tensor.ne.assign(found.ne, found.ne + found.n_dims);
      if (const auto match = match_gguf_name(found.name)) {
        tensor.spec = match->spec;
        tensor.layer = match->layer;
      }
      tensor.source = {found.type, RowTransform::kNone, {found.bytes.data()}};
      tensor.type = found.type;
      out.push_back(std::move(tensor));
    }
  }
  return out;
}

int64_t total_bytes(const std::vector<PlannedTensor>& tensors) noexcept {
  int64_t total = 0;
  for (const PlannedTensor& tensor : tensors) total += tensor.bytes();
  return total;
}

int64_t total_elements(const std::vector<PlannedTensor>& tensors) noexcept {
  int64_t total = 0;
  for (const PlannedTensor& tensor : tensors) total += tensor.n_elements();
  return total;
}

}  // namespace kda
