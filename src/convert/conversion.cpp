#include "convert/conversion.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "convert/gguf_metadata.h"
#include "convert/gguf_output.h"
#include "convert/hf_metadata.h"
#include "convert/importance_matrix.h"
#include "convert/model_card.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/shard_name.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

namespace kda {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxParts = std::numeric_limits<uint16_t>::max();  // split.count is a UINT16
constexpr std::string_view kExtension = ".gguf";

/// How many tensors each file gets.
std::vector<size_t> cut_into_parts(const std::vector<PlannedTensor>& tensors, const SplitOptions& split,
                                   const std::vector<size_t>& source_parts) {
  if (split.keep) return source_parts;
  std::vector<size_t> parts{0};
  int64_t bytes = 0;
  for (const PlannedTensor& tensor : tensors) {
    const bool full = (split.max_bytes > 0 && bytes + tensor.bytes() > split.max_bytes) ||
                      (split.max_tensors > 0 && static_cast<int64_t>(parts.back()) >= split.max_tensors);
    if (full && parts.back() > 0) {
      parts.push_back(0);
      bytes = 0;
    }
    ++parts.back();
    bytes += tensor.bytes();
  }
  return parts;
}

/// The name of a file or of part `number` of `count`. A name that has a part's ending already loses it.
fs::path part_path(const fs::path& path, size_t number, size_t count) {
  if (count == 1) return path;
  const std::string name = path.filename().string();
  std::string prefix = name.ends_with(kExtension) ? name.substr(0, name.size() - kExtension.size()) : name;
  if (const auto shard = parse_shard_name(name)) prefix = shard->prefix;
  return path.parent_path() / format_shard_name({prefix, static_cast<int>(number), static_cast<int>(count)});
}

void refuse_requantizing(const std::vector<PlannedTensor>& tensors) {
  for (const PlannedTensor& tensor : tensors) {
    if (!tensor.quantisable() || is_plain(tensor.source.type) || tensor.type == tensor.source.type) continue;
    fail(ErrorCode::kUsage,
         "tensor {} has type {} already, expected F32, F16 or BF16; --allow-requantize goes from one quantised type to "
         "another all the same",
         tensor.name, type_info(tensor.source.type).name);
  }
}

}  // namespace

struct Conversion::Impl {
  std::unique_ptr<Checkpoint> checkpoint;  // of a model in other types
  std::optional<TensorTable> table;        // of a folder
  std::optional<GgufModel> gguf;           // of a copy
  std::vector<PlannedTensor> tensors;
  std::optional<ImportanceMatrix> importance;
  fs::path importance_file;
  std::vector<size_t> source_parts;  // tensors in each file of a GGUF source
  std::vector<std::string> notes;
  GgufWriter head;  // metadata
  std::string name, type_name;

  [[nodiscard]] std::vector<fs::path> source_files() const {
    std::vector<fs::path> out;
    if (importance) out.push_back(importance_file);
    if (gguf || checkpoint->gguf() != nullptr) {
      const GgufModel& model = gguf ? *gguf : *checkpoint->gguf();
      for (const MappedFile& file : model.files()) out.push_back(file.path());
      return out;
    }
    for (const MappedFile& file : checkpoint->safetensors()->files()) out.push_back(file.path());
    for (const char* small : {"config.json", "tiktoken.model", "tokenizer_config.json", "chat_template.jinja",
                              "generation_config.json", "README.md"}) {
      if (std::error_code ignored; fs::exists(checkpoint->location().path / small, ignored)) {
        out.push_back(checkpoint->location().path / small);
      }
    }
    return out;
  }

  void plan_gguf_source(const GgufModel& model, const QuantPreset* preset) {
    tensors = plan_gguf(model);
    for (const GgufFile& part : model.parts()) source_parts.push_back(part.tensors().size());
    copy_metadata(model.main(), preset, head);
    const std::string file = fs::path(model.main().name()).stem().string();
    const auto given = model.main().get_string("general.name");
    name = given && !given->empty() ? std::string(*given) : file;
    for (char& c : name) {
      if (c == ' ' || c == '/') c = '-';
    }
  }

  void plan_folder_source(const QuantPreset& preset) {
    const ModelConfig& config = checkpoint->config();
    const fs::path& folder = checkpoint->location().path;
    table.emplace(*checkpoint->safetensors());
    tensors = plan_folder(config, *table);
    source_parts = {tensors.size()};
    const ModelCard card = read_model_card(folder);
    name = card.file_name;
    const Vocabulary vocabulary = read_folder_vocabulary(folder.string(), config.vocab_size);
    notes.insert(notes.end(), vocabulary.notes.begin(), vocabulary.notes.end());
    add_general_metadata(card, folder, config, checkpoint->n_parameters(), preset, head);
    add_architecture_metadata(config, folder, head);
    add_tokenizer_metadata(vocabulary, checkpoint->chat_template(), head);
  }

  void read_importance(const fs::path& file) {
    importance = ImportanceMatrix::read(file);
    importance_file = file;
    for (const ImportanceMatrix::Gap& gap : importance->gaps()) {
      notes.push_back(fmt::format("{}: {}: no data for {} of {} matrices: their columns count the same", file.string(),
                                  gap.tensor, gap.matrices.size(), gap.n_matrices));
    }
    std::vector<std::string> without;
    for (const PlannedTensor& tensor : tensors) {
      if (!tensor.quantisable() || is_plain(tensor.type)) continue;
      if (importance->of(tensor.name, 0, tensor.cols()).empty()) without.push_back(tensor.name);
    }
    if (!without.empty()) {
      notes.push_back(fmt::format("{}: no data for {} of the tensors to be quantised, the first is {}", file.string(),
                                  without.size(), without.front()));
    }
    head.add_string("quantize.imatrix.file", file.filename().string());
    if (!importance->datasets.empty()) head.add_string("quantize.imatrix.dataset", importance->datasets.front());
    head.add_int32("quantize.imatrix.entries_count", static_cast<int32_t>(importance->n_tensors()));
    if (importance->n_chunks > 0 && importance->n_chunks <= std::numeric_limits<int32_t>::max()) {
      head.add_int32("quantize.imatrix.chunks_count", static_cast<int32_t>(importance->n_chunks));
    }
  }

  [[nodiscard]] std::vector<GgufOutputPart> output_parts(const fs::path& path, const SplitOptions& split) const {
    const std::vector<size_t> sizes = cut_into_parts(tensors, split, source_parts);
    if (sizes.size() > kMaxParts) {
      fail(ErrorCode::kLimit, "{}: expected at most {} parts, found {}: allow larger ones", path.string(), kMaxParts,
           sizes.size());
    }
    std::vector<GgufOutputPart> parts;
    size_t tensor = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      GgufOutputPart part{part_path(path, i + 1, sizes.size()), i == 0 ? head : GgufWriter(), {}};
      if (sizes.size() > 1) {
        part.head.add_uint16("split.no", static_cast<uint16_t>(i));
        part.head.add_uint16("split.count", static_cast<uint16_t>(sizes.size()));
        part.head.add_int32("split.tensors.count", static_cast<int32_t>(tensors.size()));
      }
      for (const size_t end = tensor + sizes[i]; tensor < end; ++tensor) {
        part.head.declare_tensor(tensors[tensor].name, tensors[tensor].type, tensors[tensor].ne);
        part.tensor_bytes.push_back(tensors[tensor].bytes());
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

  /// Names, sizes and times of the sources.
  [[nodiscard]] std::string identity() const {
    std::string out;
    for (const fs::path& file : source_files()) {
      out += fmt::format("{} {} {}\n", fs::weakly_canonical(file).string(), fs::file_size(file),
                         fs::last_write_time(file).time_since_epoch().count());
    }
    return out;
  }
};

Conversion::Conversion(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Conversion::~Conversion() = default;
Conversion::Conversion(Conversion&&) noexcept = default;

Conversion Conversion::to_types(const ModelLocation& source, const TypeOptions& types) {
  const QuantPreset& preset = find_quant_preset(types.type);
  auto impl = std::make_unique<Impl>();
  impl->checkpoint = Checkpoint::open(source);
  const auto warnings = impl->checkpoint->warnings();
  impl->notes.assign(warnings.begin(), warnings.end());
  if (const GgufModel* gguf = impl->checkpoint->gguf()) {
    impl->plan_gguf_source(*gguf, &preset);
  } else {
    impl->plan_folder_source(preset);
  }
  choose_types(impl->tensors, preset, types.recipe, types.rules, impl->notes);
  if (!types.allow_requantize) refuse_requantizing(impl->tensors);
  impl->type_name = preset.name;
  if (!types.importance.empty()) impl->read_importance(types.importance);
  return Conversion(std::move(impl));
}

Conversion Conversion::copy(const fs::path& gguf) {
  auto impl = std::make_unique<Impl>();
  impl->gguf.emplace(GgufModel::open(gguf));
  impl->plan_gguf_source(*impl->gguf, nullptr);
  return Conversion(std::move(impl));
}

const std::vector<PlannedTensor>& Conversion::tensors() const noexcept { return impl_->tensors; }
const std::vector<std::string>& Conversion::notes() const noexcept { return impl_->notes; }

std::string Conversion::default_file_name() const {
  return fmt::format("{}-{}{}", impl_->name, impl_->type_name, kExtension);
}

std::vector<fs::path> Conversion::output_paths(const fs::path& path, const SplitOptions& split) const {
  std::vector<fs::path> out;
  for (const GgufOutputPart& part : impl_->output_parts(path, split)) out.push_back(part.path);
  return out;
}

void Conversion::write(const fs::path& path, const SplitOptions& split, const WriteOptions& options,
                       const ConvertProgress& progress) const {
  std::vector<GgufOutputPart> parts = impl_->output_parts(path, split);
  for (const GgufOutputPart& part : parts) {
    for (const fs::path& file : impl_->source_files()) {
      if (std::error_code ignored; fs::equivalent(part.path, file, ignored)) {
        fail(ErrorCode::kIo, "{}: is read from and cannot be written to, expected another name for the output",
             part.path.string());
      }
    }
  }
  GgufOutput output(std::move(parts), {impl_->identity() + options.identity, options.resume, progress});
  try {
    write_tensors(impl_->tensors, impl_->importance ? &*impl_->importance : nullptr, output, options.n_threads,
                  progress);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kIo && e.code() != ErrorCode::kInterrupted) output.discard();
    throw;
  }
  if (impl_->checkpoint) impl_->checkpoint->check_unchanged();
  if (options.check) {
    try {
      output.check(progress);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kInterrupted) output.discard();
      throw;
    }
  }
  output.commit();
}

}  // namespace kda
