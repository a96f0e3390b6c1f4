#include "weights/checkpoint.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/xxhash64.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "quant/codec.h"
#include "weights/binder.h"
#include "weights/metadata.h"
#include "weights/owned_memory.h"
#include "weights/tensor_table.h"

namespace kda {

namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxTemplateBytes = size_t{16} << 20;
constexpr const char* kDefaultTemplate = "default";  // of several named ones

/// chat_template.jinja, or what tokenizer_config.json holds: a template, or a list of named ones.
std::string read_chat_template(const std::filesystem::path& folder) {
  if (const auto file = folder / "chat_template.jinja"; std::filesystem::exists(file)) {
    return read_text_file(file, kMaxTemplateBytes);
  }
  const auto file = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(file)) return {};
  const Json config = read_json_file(file);
  if (!config.is_object() || !config.contains("chat_template")) return {};
  const Json& found = config["chat_template"];
  if (found.is_null()) return {};
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) {
    fail(ErrorCode::kFormat, "{}: chat_template is of type {}, expected a string or an array", file.string(),
         found.type_name());
  }
  for (const Json& entry : found) {
    const bool whole = entry.is_object() && entry.contains("name") && entry.contains("template") &&
                       entry["name"].is_string() && entry["template"].is_string();
    if (!whole) {
      fail(ErrorCode::kFormat, "{}: chat_template has an element that is not an object of strings name and template",
           file.string());
    }
    if (entry["name"] == kDefaultTemplate) return entry["template"].get<std::string>();
  }
  return {};
}

}  // namespace

struct Checkpoint::Impl {
  ModelLocation location;
  std::optional<GgufModel> gguf;
  std::optional<SafeTensorsModel> safetensors;
  std::string config_text;  // of a folder
  ModelConfig config;
  std::string chat_template;
  std::optional<TensorTable> table;
  OwnedMemory memory;
  ModelWeights weights;
  std::vector<std::string> warnings;

  [[nodiscard]] std::span<const MappedFile> files() const noexcept {
    return gguf ? gguf->files() : safetensors->files();
  }

  void open_gguf() {
    gguf.emplace(GgufModel::open(location.path));
    for (const GgufFile& part : gguf->parts()) {
      warnings.insert(warnings.end(), part.warnings().begin(), part.warnings().end());
    }
    config = read_gguf_config(*gguf, warnings);
    chat_template = std::string(gguf->main().get_string("tokenizer.chat_template").value_or(""));
    table.emplace(*gguf);
    weights = bind_weights(config, subject(), *table, memory, warnings);
  }

  void open_folder() {
    const auto config_path = location.path / "config.json";
    config_text = read_text_file(config_path, kMaxConfigBytes);
    config = read_hf_config(parse_json(config_text, config_path.string()), config_path.string());
    config.name = std::filesystem::weakly_canonical(location.path).filename().string();
    chat_template = read_chat_template(location.path);
    safetensors.emplace(SafeTensorsModel::open(location.path));
    table.emplace(*safetensors);
    weights = bind_weights(config, subject(), *table, memory, warnings);
  }

  [[nodiscard]] std::string subject() const {
    return gguf ? "gguf: " + gguf->main().name() : "safetensors: " + location.path.string();
  }
};

Checkpoint::Checkpoint() : impl_(std::make_unique<Impl>()) {}
Checkpoint::~Checkpoint() = default;

std::unique_ptr<Checkpoint> Checkpoint::open(const ModelLocation& location) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->impl_->location = location;
  if (location.kind == ModelKind::kGguf) {
    checkpoint->impl_->open_gguf();
  } else {
    checkpoint->impl_->open_folder();
  }
  return checkpoint;
}

const ModelLocation& Checkpoint::location() const noexcept { return impl_->location; }
const ModelConfig& Checkpoint::config() const noexcept { return impl_->config; }
const ModelWeights& Checkpoint::weights() const noexcept { return impl_->weights; }
const std::string& Checkpoint::chat_template() const noexcept { return impl_->chat_template; }
const GgufModel* Checkpoint::gguf() const noexcept { return impl_->gguf ? &*impl_->gguf : nullptr; }
const SafeTensorsModel* Checkpoint::safetensors() const noexcept {
  return impl_->safetensors ? &*impl_->safetensors : nullptr;
}
std::span<const std::string> Checkpoint::warnings() const noexcept { return impl_->warnings; }
int64_t Checkpoint::owned_bytes() const noexcept { return impl_->memory.size_bytes(); }

std::vector<TensorListing> Checkpoint::tensors() const {
  std::vector<TensorListing> out;
  for (const FileTensor& t : impl_->table->tensors()) {
    std::vector<int64_t> shape = t.shape;
    if (impl_->gguf) std::reverse(shape.begin(), shape.end());
    out.push_back(
        {std::string(t.name), std::string(t.type_name), std::move(shape), static_cast<int64_t>(t.bytes.size())});
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> Checkpoint::metadata() const {
  return impl_->gguf ? list_metadata(impl_->gguf->main()) : list_metadata(impl_->config_text);
}

int64_t Checkpoint::mapped_bytes() const noexcept {
  int64_t total = 0;
  for (const FileTensor& t : impl_->table->tensors()) {
    if (t.used) total += static_cast<int64_t>(t.bytes.size());
  }
  return total;
}

uint64_t Checkpoint::fingerprint() const {
  constexpr size_t kSampleBytes = 256;
  check_unchanged();
  XxHash64 hash;
  // With its length, so that no two lists run together to the same bytes.
  const auto add = [&](std::string_view text) {
    const uint64_t n = text.size();
    hash.update(std::as_bytes(std::span(&n, 1)));
    hash.update(std::as_bytes(std::span(text)));
  };
  for (const auto& [key, value] : metadata()) {
    add(key);
    add(value);
  }
  for (const FileTensor& t : impl_->table->tensors()) {
    add(t.name);
    add(t.type_name);
    hash.update(std::as_bytes(std::span(t.shape)));
    const auto bytes = std::as_bytes(std::span(t.bytes));
    const size_t n = std::min(kSampleBytes, bytes.size());
    hash.update(bytes.first(n));
    hash.update(bytes.subspan(std::min(bytes.size() / 2, bytes.size() - n), n));
  }
  return hash.digest();
}

int64_t Checkpoint::n_parameters() const noexcept {
  int64_t total = 0;
  for (const FileTensor& t : impl_->table->tensors()) {
    if (t.used) total += t.n_elements();
  }
  return total;
}

void Checkpoint::check_unchanged() const {
  for (const MappedFile& file : impl_->files()) file.check_unchanged();
}

void Checkpoint::check_values(const std::function<bool(int64_t, int64_t)>& progress) const {
  constexpr int64_t kReportBytes = int64_t{16} << 20;
  int64_t total = 0;
  for (const FileTensor& t : impl_->table->tensors())
    if (t.used) total += static_cast<int64_t>(t.bytes.size());
  int64_t done = 0;
  int64_t reported = 0;
  for (const FileTensor& t : impl_->table->tensors()) {
    if (!t.used) continue;
    const int64_t cols = t.n_cols();
    const int64_t bytes = row_bytes(t.type->type, cols);
    const int64_t n_rows = t.n_elements() / cols;
    for (int64_t row = 0; row < n_rows; ++row, done += bytes) {
      if (progress && done - reported >= kReportBytes) {
        reported = done;
        if (!progress(done, total)) fail(ErrorCode::kInterrupted, "interrupted");
      }
      const int64_t block = find_non_finite_block(t.type->type, t.bytes.data() + row * bytes, cols);
      if (block < 0) continue;
      const int64_t length = t.type->block_elements;
      const int64_t first = block * length;
      const std::string where =
          length == 1 ? fmt::format("element {}", first) : fmt::format("elements {} to {}", first, first + length - 1);
      fail(ErrorCode::kFormat, "{}: tensor {} of type {} holds NaN or infinity in row {}, {}", impl_->subject(),
           quote(t.name), t.type_name, row, where);
    }
  }
}

}  // namespace kda
