#include "formats/hub.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/file_kind.h"
#include "formats/gguf_choice.h"
#include "formats/json.h"
#include "formats/shard_name.h"

namespace kda {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDefaultLabel = "Q4_K_M";
constexpr std::string_view kPartialExtensions[] = {".incomplete", ".part",     ".crdownload",
                                                   ".aria2",      ".download", ".downloadInProgress"};
constexpr int kMaxDepthInFolder = 1;
constexpr int kMaxDepthInCache = 2;     // repositories keep split sets in a sub-folder a quantization
constexpr size_t kMaxRefBytes = 4096;   // a commit hash in practice
constexpr size_t kMaxListedNames = 20;  // in a message

/// Throws when it cannot be told, for example in a folder that may not be entered.
fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none && error != std::errc::filename_too_long) {
    fail(ErrorCode::kIo, "{}: cannot read: {}", path.string(), error.message());
  }
  return status;
}

bool file_exists(const fs::path& path) { return fs::exists(status_of(path)); }

bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }

bool is_partial_name(const fs::path& path) {
  return std::find(std::begin(kPartialExtensions), std::end(kPartialExtensions), path.extension().string()) !=
         std::end(kPartialExtensions);
}

/// A file that an unfinished download left in one of the folders; empty when there is none.
fs::path find_partial_download(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
      if (is_partial_name(it->path())) return it->path();
    }
  }
  return {};
}

std::string list_names(const std::vector<GgufCandidate>& candidates) {
  std::string out;
  for (size_t i = 0; i < candidates.size() && i < kMaxListedNames; ++i) {
    out += (i == 0 ? "" : ", ") + candidates[i].relative;
  }
  if (candidates.size() > kMaxListedNames) out += fmt::format(" and {} more", candidates.size() - kMaxListedNames);
  return out;
}

/// The model in a file; throws when it is not a GGUF file.
ModelLocation locate_file(fs::path path) {
  if (is_partial_name(path)) {
    fail(ErrorCode::kFormat, "{}: expected a GGUF file, found a partial download; finish the download", path.string());
  }
  if (!file_exists(path)) {
    std::error_code ignored;
    fail(ErrorCode::kNotFound, "{}: expected a GGUF file, found {}; download it again", path.string(),
         fs::is_symlink(path, ignored) ? "a link to a file that is missing" : "none");
  }
  if (auto shard = parse_shard_name(path.filename().string()); shard && shard->number != 1) {
    shard->number = 1;
    const fs::path first = path.parent_path() / format_shard_name(*shard);
    if (file_exists(first)) path = first;
  }
  const MappedFile file(path);
  if (const FileKind kind = find_file_kind(file.bytes()); kind != FileKind::kGguf) {
    fail(ErrorCode::kFormat, "{}: expected a GGUF file, found {}", path.string(), describe(kind));
  }
  return {ModelKind::kGguf, path};
}

/// How to choose between the GGUF models of a folder.
struct Choice {
  std::string label;                       // empty: none was given
  bool has_default = false;                // without a label: Q4_K_M, then the first by name
  int max_depth = 0;                       // of sub-folders to look into
  std::vector<fs::path> download_folders;  // where an unfinished download would be seen
};

ModelLocation locate_in_folder(const fs::path& folder, const Choice& choice) {
  const bool has_config = file_exists(folder / "config.json");
  const bool has_weights =
      file_exists(folder / "model.safetensors") || file_exists(folder / "model.safetensors.index.json");
  if (has_config && has_weights && choice.label.empty()) return {ModelKind::kFolder, folder};

  const std::vector<GgufCandidate> all = list_gguf_models(folder, choice.max_depth);
  if (all.empty()) {
    if (has_config && has_weights) {
      fail(ErrorCode::kUsage,
           "{}: expected GGUF models to choose '{}' from, found a safetensors model; leave the label out",
           folder.string(), choice.label);
    }
    if (const fs::path partial = find_partial_download(choice.download_folders); !partial.empty()) {
      fail(ErrorCode::kFormat, "{}: expected a model, found a partial download ({}); finish the download",
           folder.string(), partial.filename().string());
    }
    fail(ErrorCode::kNotFound,
         "{}: expected a GGUF file, or config.json with model.safetensors or model.safetensors.index.json, found {}",
         folder.string(),
         has_config    ? "config.json alone"
         : has_weights ? "no config.json"
                       : "neither");
  }
  if (!choice.label.empty()) {
    const std::vector<GgufCandidate> fitting = match_label(all, choice.label);
    if (fitting.size() == 1) return locate_file(fitting.front().path);
    if (fitting.empty()) {
      const fs::path partial = find_partial_download(choice.download_folders);
      fail(ErrorCode::kNotFound, "{}: expected a GGUF model that '{}' fits, found {}{}", folder.string(), choice.label,
           list_names(all), partial.empty() ? "" : " and the partial download " + partial.filename().string());
    }
    fail(ErrorCode::kUsage, "{}: expected one GGUF model that '{}' fits, found {}; give more of the name",
         folder.string(), choice.label, list_names(fitting));
  }
  if (all.size() == 1) return locate_file(all.front().path);
  if (!choice.has_default) {
    fail(ErrorCode::kUsage, "{}: expected one GGUF model, found {}; give one of them, or FOLDER:LABEL", folder.string(),
         list_names(all));
  }
  const std::vector<GgufCandidate> fitting = match_label(all, kDefaultLabel);
  return locate_file(fitting.empty() ? all.front().path : fitting.front().path);
}

Choice folder_choice(const fs::path& folder, std::string label) {
  return {std::move(label), false, kMaxDepthInFolder, {folder, folder / ".cache" / "huggingface" / "download"}};
}

/// org/name[:label][@revision]
struct HubName {
  std::string org, name, label, revision;
};

bool is_plain_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

/// One or more plain names with '/' between them.
bool is_plain_path(std::string_view text) {
  for (;;) {
    const size_t slash = text.find('/');
    if (!is_plain_name(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName out;
  const size_t base_end = std::min(text.find_first_of(":@"), text.size());
  const std::string_view base = text.substr(0, base_end);
  const size_t slash = std::min(base.find('/'), base.size());
  out.org = base.substr(0, slash);
  out.name = base.substr(std::min(slash + 1, base.size()));
  if (!is_plain_name(out.org) || !is_plain_name(out.name)) return std::nullopt;
  text.remove_prefix(base_end);
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(":@", 1), text.size());
    const std::string_view part = text.substr(1, end - 1);
    std::string& field = text[0] == ':' ? out.label : out.revision;
    if (!field.empty() || !(text[0] == ':' ? is_plain_name(part) : is_plain_path(part))) return std::nullopt;
    field = part;
    text.remove_prefix(end);
  }
  return out;
}

std::vector<fs::path> cache_roots(std::string (*getenv_like)(const char*)) {
  struct Place {
    const char* variable;
    const char* below;
  };
  constexpr Place kPlaces[] = {{"LLAMA_CACHE", ""},
                               {"HF_HUB_CACHE", ""},
                               {"HUGGINGFACE_HUB_CACHE", ""},
                               {"HF_HOME", "hub"},
                               {"XDG_CACHE_HOME", "huggingface/hub"},
                               {"HOME", ".cache/huggingface/hub"}};
  std::vector<fs::path> out;
  for (const Place& place : kPlaces) {
    const std::string value = getenv_like(place.variable);
    if (value.empty()) continue;
    const fs::path root = *place.below == '\0' ? fs::path(value) : fs::path(value) / place.below;
    if (std::find(out.begin(), out.end(), root) == out.end()) out.push_back(root);
  }
  return out;
}

/// The newest of the snapshots by its time of change; empty when there is none.
fs::path newest_snapshot(const fs::path& snapshots) {
  fs::path newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (fs::directory_iterator it(snapshots, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) continue;
    const fs::file_time_type time = it->last_write_time(ignored);
    if (newest.empty() || time > newest_time || (time == newest_time && it->path() < newest)) {
      newest = it->path();
      newest_time = time;
    }
  }
  return newest;
}

/// The folder of the revision: refs/REVISION names a commit, a commit names itself, and without a revision it is
/// refs/main or else the newest there is.
fs::path find_snapshot(const fs::path& repository, const HubName& wanted) {
  const fs::path snapshots = repository / "snapshots";
  const std::string revision = wanted.revision.empty() ? "main" : wanted.revision;
  const fs::path ref = repository / "refs" / revision;
  std::string commit;
  if (file_exists(ref)) {
    commit = read_text_file(ref, kMaxRefBytes);
    commit.erase(std::find_if(commit.begin(), commit.end(), [](char c) { return c == '\n' || c == '\r' || c == ' '; }),
                 commit.end());
    if (!is_plain_name(commit)) {
      fail(ErrorCode::kFormat, "{}: expected a commit hash, found {}", ref.string(), quote(commit));
    }
  } else if (is_plain_name(revision) && is_folder(snapshots / revision)) {
    commit = revision;
  }
  if (commit.empty() && wanted.revision.empty()) {
    if (fs::path newest = newest_snapshot(snapshots); !newest.empty()) return newest;
  }
  if (!commit.empty() && is_folder(snapshots / commit)) return snapshots / commit;
  const fs::path partial = find_partial_download({repository / "blobs"});
  fail(ErrorCode::kNotFound, "{}: expected revision '{}' in the cache, found {}", repository.string(), revision,
       partial.empty() ? "none; download it first" : "a partial download (" + partial.filename().string() + ")");
}

}  // namespace

ModelLocation locate_model(const std::string& model, std::string (*getenv_like)(const char*)) {
  if (model.empty()) {
    fail(ErrorCode::kUsage, "MODEL: expected the name of a file, a folder or a model, found an empty text");
  }
  const fs::path path(model);
  if (is_folder(path)) return locate_in_folder(path, folder_choice(path, ""));
  std::error_code ignored;
  if (file_exists(path) || fs::is_symlink(path, ignored)) return locate_file(path);
  if (const size_t colon = model.rfind(':'); colon != std::string::npos && is_folder(model.substr(0, colon))) {
    const fs::path folder = model.substr(0, colon);
    return locate_in_folder(folder, folder_choice(folder, model.substr(colon + 1)));
  }
  for (const std::string_view extension : kPartialExtensions) {
    const fs::path partial = model + std::string(extension);
    if (file_exists(partial)) {
      fail(ErrorCode::kFormat, "{}: expected a model, found its partial download {}; finish the download", model,
           partial.filename().string());
    }
  }

  const std::optional<HubName> wanted = parse_hub_name(model);
  if (!wanted) {
    fail(ErrorCode::kNotFound,
         "{}: expected a GGUF file, a folder with a model, or ORG/NAME[:LABEL] of a model in the local Hugging Face "
         "cache, found no file or folder of this name",
         model);
  }
  const std::string repository_name = "models--" + wanted->org + "--" + wanted->name;
  std::string places;
  for (const fs::path& root : cache_roots(getenv_like)) {
    const fs::path repository = root / repository_name;
    if (is_folder(repository)) {
      return locate_in_folder(find_snapshot(repository, *wanted),
                              {wanted->label, true, kMaxDepthInCache, {repository / "blobs"}});
    }
    places += (places.empty() ? "" : ", ") + repository.string();
  }
  fail(ErrorCode::kNotFound,
       "{}: expected a file, a folder or a model in the local Hugging Face cache, found none; looked at {}{}{}; "
       "download it first (hf download {}/{})",
       model, model, places.empty() ? "" : ", ", places, wanted->org, wanted->name);
}

}  // namespace kda
