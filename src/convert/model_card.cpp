#include "convert/model_card.h"

#include <algorithm>
#include <map>

#include "formats/json.h"

namespace kda {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxReadmeBytes = size_t{4} << 20;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// "48B", "0.5B", "A3B", "A220M", "8x7B".
bool is_size(std::string_view word) noexcept {
  if (word.starts_with('A') || word.starts_with('a')) word.remove_prefix(1);
  if (word.size() < 2 || !is_digit(word.front())) return false;
  if (std::string_view("KMBTkmbt").find(word.back()) == std::string_view::npos) return false;
  return std::all_of(word.begin(), word.end() - 1, [](char c) { return is_digit(c) || c == '.' || c == 'x'; });
}

void append_word(std::string& to, std::string_view word) {
  if (!to.empty()) to += '-';
  to += word;
}

}  // namespace

void split_model_name(std::string_view name, ModelCard& card) {
  enum { kBase, kSize, kTune } part = kBase;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('-'));
    name.remove_prefix(std::min(word.size() + 1, name.size()));
    if (part != kTune && is_size(word)) {
      part = kSize;
    } else if (part == kSize) {
      part = kTune;
    }
    append_word(part == kBase ? card.basename : part == kSize ? card.size_label : card.finetune, word);
  }
}

void read_front_matter(std::string_view readme, ModelCard& card) {
  if (trim(next_line(readme)) != "---") return;
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::string key;
  while (!readme.empty()) {
    const std::string_view line = next_line(readme);
    const std::string_view text = trim(line);
    if (text == "---") break;
    if (text.empty() || text.starts_with('#')) continue;
    if (text.starts_with("- ")) {
      if (!key.empty()) values[key].emplace_back(trim(text.substr(2)));
      continue;
    }
    const size_t colon = text.find(':');
    if (line.front() == ' ' || line.front() == '\t' || colon == std::string_view::npos) {
      key.clear();  // a nested object or a text of several lines: not among the keys that are read
      continue;
    }
    key = std::string(trim(text.substr(0, colon)));
    std::string_view value = trim(text.substr(colon + 1));
    if (value.starts_with('[') && value.ends_with(']')) {
      value = value.substr(1, value.size() - 2);
      while (!value.empty()) {
        const std::string_view item = value.substr(0, value.find(','));
        value.remove_prefix(std::min(item.size() + 1, value.size()));
        if (const std::string_view word = trim(item); !word.empty()) values[key].emplace_back(word);
      }
    } else if (!value.empty()) {
      values[key].emplace_back(value);
    }
  }
  const auto first = [&](const char* name) {
    const auto it = values.find(name);
    return it == values.end() || it->second.empty() ? std::string() : it->second.front();
  };
  card.license = first("license");
  card.license_name = first("license_name");
  card.license_link = first("license_link");
  card.base_models = values["base_model"];
  card.tags = values["tags"];
  if (const std::string pipeline = first("pipeline_tag"); !pipeline.empty()) card.tags.push_back(pipeline);
  card.languages = values["language"];
}

ModelCard read_model_card(const fs::path& folder) {
  ModelCard card;
  const fs::path path = fs::weakly_canonical(folder);
  card.file_name = path.filename().string();
  // A cache has models--ORG--NAME/snapshots/COMMIT.
  constexpr std::string_view kCachePrefix = "models--";
  const std::string cached = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() == "snapshots" && cached.starts_with(kCachePrefix)) {
    const std::string name = cached.substr(kCachePrefix.size());
    if (const size_t dashes = name.find("--"); dashes != std::string::npos) {
      card.repository = name.substr(0, dashes) + '/' + name.substr(dashes + 2);
      card.file_name = name.substr(dashes + 2);
    }
  }
  split_model_name(card.file_name, card);
  std::error_code ignored;
  if (const fs::path readme = path / "README.md"; fs::is_regular_file(readme, ignored)) {
    read_front_matter(read_text_file(readme, kMaxReadmeBytes), card);
  }
  return card;
}

}  // namespace kda
