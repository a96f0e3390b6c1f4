#include "formats/gguf_choice.h"

#include <algorithm>
#include <climits>
#include <map>
#include <system_error>

#include "base/error.h"
#include "formats/shard_name.h"

namespace kda {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

/// The relative name without extension and part number, in lower case.
std::string label_text(const GgufCandidate& candidate) {
  if (const auto shard = parse_shard_name(candidate.relative)) return to_lower(shard->prefix);
  return to_lower(std::string_view(candidate.relative).substr(0, candidate.relative.size() - kExtension.size()));
}

bool is_quantization(std::string_view word) {
  for (const std::string_view name : {"bf16", "f16", "f32", "fp16", "fp32", "mxfp4", "nvfp4"}) {
    if (word == name || (word.starts_with(name) && word[name.size()] == '_')) return true;
  }
  for (const std::string_view prefix : {"q", "iq", "tq"}) {
    if (word.size() > prefix.size() + 1 && word.starts_with(prefix) && word[prefix.size()] >= '1' &&
        word[prefix.size()] <= '8' && word[prefix.size() + 1] == '_') {
      return true;
    }
  }
  return false;
}

/// The last word of the text that names a quantization, with a "ud-" before it; empty when there is none.
std::string_view find_quantization(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end;
    while (begin > 0 && is_word_char(text[begin - 1])) --begin;
    if (is_quantization(text.substr(begin, end - begin))) {
      const bool dynamic = text.substr(0, begin).ends_with("ud-") && (begin == 3 || !is_word_char(text[begin - 4]));
      return text.substr(dynamic ? begin - 3 : begin, dynamic ? end - begin + 3 : end - begin);
    }
    end = begin == 0 ? 0 : begin - 1;
  }
  return {};
}

/// 0 is best; INT_MAX: does not fit.
int label_rank(const GgufCandidate& candidate, std::string_view label) {
  if (to_lower(candidate.path.filename().string()) == label) return 0;
  const std::string text = label_text(candidate);
  if (find_quantization(text) == label) return 0;
  int rank = INT_MAX;
  for (size_t at = text.find(label); at != std::string::npos; at = text.find(label, at + 1)) {
    if (at > 0 && is_word_char(text[at - 1])) continue;
    const char next = at + label.size() < text.size() ? text[at + label.size()] : '\0';
    if (!is_word_char(next)) return 1;
    if (next == '_') rank = 2;
  }
  return rank;
}

bool is_model_file(const std::string& file_name) {
  const std::string name = to_lower(file_name);
  if (!name.ends_with(kExtension)) return false;
  const std::string_view stem = std::string_view(name).substr(0, name.size() - kExtension.size());
  return !stem.starts_with("mmproj") && !stem.starts_with("mtp-") && !stem.starts_with("imatrix") &&
         !stem.ends_with("imatrix");
}

}  // namespace

std::vector<GgufCandidate> list_gguf_models(const fs::path& folder, int max_depth) {
  std::map<std::string, fs::path> found;  // by relative name
  std::error_code error;
  if (fs::directory_iterator(folder, error); error) {
    fail(ErrorCode::kIo, "{}: cannot read: {}", folder.string(), error.message());
  }
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string file_name = it->path().filename().string();
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      if (it.depth() >= max_depth || file_name.starts_with('.')) it.disable_recursion_pending();
      continue;
    }
    if (!is_model_file(file_name)) continue;
    fs::path path = it->path();
    if (auto shard = parse_shard_name(file_name)) {
      shard->number = 1;
      path.replace_filename(format_shard_name(*shard));
    }
    found.emplace(path.lexically_relative(folder).generic_string(), path);
  }
  std::vector<GgufCandidate> out;
  out.reserve(found.size());
  for (const auto& [relative, path] : found) out.push_back({path, relative});
  return out;
}

std::vector<GgufCandidate> match_label(const std::vector<GgufCandidate>& candidates, std::string_view label) {
  const std::string wanted = to_lower(label);
  std::vector<GgufCandidate> best;
  int best_rank = INT_MAX - 1;
  for (const GgufCandidate& candidate : candidates) {
    const int rank = label_rank(candidate, wanted);
    if (rank > best_rank) continue;
    if (rank < best_rank) best.clear();
    best_rank = rank;
    best.push_back(candidate);
  }
  return best;
}

}  // namespace kda
