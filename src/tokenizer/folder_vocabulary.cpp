#include "tokenizer/folder_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/json.h"
#include "tokenizer/vocabulary_checks.h"

namespace kda {
namespace {

constexpr std::string_view kTiktokenFile = "tiktoken.model";
constexpr std::string_view kConfigFile = "tokenizer_config.json";
constexpr size_t kMaxTiktokenBytes = size_t{256} << 20;

constexpr std::array<int, 256> kSextets = [] {
  std::array<int, 256> sextets{};
  for (int& sextet : sextets) sextet = -1;
  int n = 0;
  for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
    sextets[static_cast<uint8_t>(c)] = n++;
  }
  return sextets;
}();

/// Base64 with padding (RFC 4648); nullopt when the text is not.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t n_padding = 0;
  while (n_padding < 2 && n_padding < text.size() && text[text.size() - 1 - n_padding] == '=') ++n_padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    int sextet = 0;
    if (i < text.size() - n_padding) {
      sextet = kSextets[static_cast<uint8_t>(text[i])];
      if (sextet < 0) return std::nullopt;
    }
    bits = bits << 6 | static_cast<uint32_t>(sextet);
    if (i % 4 == 3) {
      for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift);
      bits = 0;
    }
  }
  bytes.resize(bytes.size() - n_padding);
  return bytes;
}

template <typename Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// added_tokens_decoder: names by id.
std::map<int64_t, std::string> read_names(const Json& config, const std::string& subject) {
  std::map<int64_t, std::string> names;
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end()) return names;
  if (!decoder->is_object()) fail(ErrorCode::kFormat, "{}: added_tokens_decoder is not an object", subject);
  for (const auto& [key, token] : decoder->items()) {
    const auto id = parse_integer<int64_t>(key);
    if (!id || *id < 0) {
      fail(ErrorCode::kFormat, "{}: added_tokens_decoder has the key {}, expected a token id", subject, quote(key));
    }
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (content == token.end() || !content->is_string()) {
      fail(ErrorCode::kFormat, "{}: added token {} has no text \"content\"", subject, *id);
    }
    names[*id] = content->get<std::string>();
  }
  return names;
}

/// The id of the token that `config` names under `key`, as a string or as an object with "content".
std::optional<int32_t> read_special(const Json& config, const char* key, Vocabulary& vocabulary) {
  const auto value = config.find(key);
  if (value == config.end() || value->is_null()) return std::nullopt;
  const Json* name = &*value;
  if (value->is_object() && value->contains("content")) name = &value->at("content");
  if (name->is_string()) {
    const auto& text = name->get_ref<const std::string&>();
    for (size_t id = 0; id < vocabulary.bytes.size(); ++id) {
      if (vocabulary.kinds[id] == TokenKind::kControl && vocabulary.bytes[id] == text) return static_cast<int32_t>(id);
    }
  }
  vocabulary.notes.push_back(fmt::format("{}: {} is ignored: it names no special token", kConfigFile, key));
  return std::nullopt;
}

}  // namespace

std::vector<std::string> parse_tiktoken(std::string_view text, const std::string& subject) {
  const FileKind kind = find_file_kind(std::as_bytes(std::span(text)));
  if (kind != FileKind::kOther) fail(ErrorCode::kFormat, "{}: this is {}", subject, describe(kind));
  std::vector<std::pair<size_t, std::string>> tokens;
  for (size_t n_lines = 1; !text.empty(); ++n_lines) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    auto bytes = decode_base64(line.substr(0, space));
    const auto rank = parse_integer<size_t>(line.substr(std::min(space + 1, line.size())));
    if (!bytes || bytes->empty() || !rank) {
      fail(ErrorCode::kFormat, "{}: line {} is not a token in base64, a space and its rank", subject, n_lines);
    }
    tokens.emplace_back(*rank, std::move(*bytes));
  }
  if (tokens.empty()) fail(ErrorCode::kFormat, "{}: the file holds no tokens", subject);

  std::vector<std::string> by_rank(tokens.size());
  std::vector<bool> seen(tokens.size());
  for (auto& [rank, bytes] : tokens) {
    if (rank >= tokens.size() || seen[rank]) {
      fail(ErrorCode::kFormat, "{}: rank {} is {}, expected every rank from 0 to {} once", subject, rank,
           rank < tokens.size() ? "there twice" : "too high", tokens.size() - 1);
    }
    seen[rank] = true;
    by_rank[rank] = std::move(bytes);
  }
  return by_rank;
}

Vocabulary make_folder_vocabulary(std::string_view tiktoken_model, std::optional<std::string_view> tokenizer_config,
                                  int64_t n_rows, const std::string& folder) {
  check_row_count(n_rows);
  const auto n_tokens = static_cast<size_t>(n_rows);
  Vocabulary vocabulary;
  vocabulary.bytes = parse_tiktoken(tiktoken_model, fmt::format("{}/{}", folder, kTiktokenFile));
  if (vocabulary.bytes.size() > n_tokens) {
    vocabulary.notes.push_back(fmt::format("{}: {} tokens for {} rows of the embedding: the last {} are left out",
                                           kTiktokenFile, vocabulary.bytes.size(), n_rows,
                                           vocabulary.bytes.size() - n_tokens));
    vocabulary.bytes.resize(n_tokens);
  }
  const size_t n_text = vocabulary.bytes.size();
  vocabulary.kinds.assign(n_text, TokenKind::kText);
  vocabulary.kinds.resize(n_tokens, TokenKind::kControl);
  vocabulary.bytes.reserve(n_tokens);
  for (size_t id = n_text; id < n_tokens; ++id) vocabulary.bytes.push_back(reserved_name(static_cast<int64_t>(id)));

  if (!tokenizer_config) {
    vocabulary.notes.push_back(fmt::format("no {}: the special tokens have no names", kConfigFile));
    return vocabulary;
  }
  const std::string subject = fmt::format("{}/{}", folder, kConfigFile);
  const Json config = parse_json(*tokenizer_config, subject);
  if (!config.is_object()) fail(ErrorCode::kFormat, "{}: not a JSON object", subject);
  const auto names = read_names(config, subject);
  if (names.empty()) {
    vocabulary.notes.push_back(
        fmt::format("{}: no added_tokens_decoder: the special tokens have no names", kConfigFile));
  }
  std::map<std::string_view, int64_t> ids;
  for (const auto& [id, name] : names) {
    if (id >= n_rows) {
      vocabulary.notes.push_back(
          fmt::format("{}: token {} is left out: the embedding has {} rows", kConfigFile, id, n_rows));
      continue;
    }
    if (id < static_cast<int64_t>(n_text)) {
      vocabulary.notes.push_back(
          fmt::format("{}: the name of token {} is ignored: it is ordinary text", kConfigFile, id));
      continue;
    }
    if (const auto [other, is_new] = ids.emplace(name, id); !is_new) {
      fail(ErrorCode::kFormat, "{}: tokens {} and {} have the same name {}", subject, other->second, id, quote(name));
    }
    vocabulary.bytes[id] = name;
  }
  vocabulary.bos = read_special(config, "bos_token", vocabulary);
  vocabulary.eos = read_special(config, "eos_token", vocabulary);
  vocabulary.pad = read_special(config, "pad_token", vocabulary);
  const auto add_bos = config.find("add_bos_token");
  vocabulary.add_bos = add_bos != config.end() && add_bos->is_boolean() && add_bos->get<bool>();
  return vocabulary;
}

Vocabulary read_folder_vocabulary(const std::string& folder, int64_t n_rows) {
  const std::filesystem::path path(std::u8string(folder.begin(), folder.end()));
  if (!std::filesystem::exists(path / kTiktokenFile)) {
    fail(ErrorCode::kNotFound, "{}: there is no {} in this folder, expected a model of the Kimi family", folder,
         kTiktokenFile);
  }
  const std::string tiktoken_model = read_text_file(path / kTiktokenFile, kMaxTiktokenBytes);
  std::optional<std::string> config;
  if (std::filesystem::exists(path / kConfigFile)) {
    config = read_text_file(path / kConfigFile, size_t{64} << 20);
  }
  return make_folder_vocabulary(tiktoken_model, config, n_rows, folder);
}

}  // namespace kda
