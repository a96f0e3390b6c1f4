// A vocabulary small enough to know by heart, and a byte-pair encoder slow enough to be right by inspection.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kda::test {

/// Text tokens: the bytes 255..0, so that no id equals its byte, then some words. Some longer tokens come before the
/// shorter ones that they are made of, which a trained vocabulary does not have but the rule of merging covers.
inline std::vector<std::string> small_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 255; byte >= 0; --byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* word :
       {" t",   "he",   " the",     "in",           "er",       "an",       "th",           "the",
        "aa",   "aaaa", "aaa",      "ab",           "bc",       "abc",      "bcd",          "abcd",
        "cd",   "on",   "ion",      "xyz",          "xy",       "yz",       "  ",           "    ",
        "\n\n", "!!",   "'s",       " a",           "and",      " and",     "<|",           "|>",
        "im",   "_e",   "end",      "_end",         "12",       "123",      "AB",           "HTTP",
        "HT",   "TP",   "\xE4\xB8", "\xE4\xB8\xAD", "\xC3\xA9", "\xF0\x9F", "\xF0\x9F\x98", "\xF0\x9F\x98\x80"}) {
    tokens.emplace_back(word);
  }
  return tokens;
}

inline constexpr const char* kSmallControls[] = {"[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_end|>!", "[EOT]"};

inline Vocabulary small_vocabulary() {
  Vocabulary vocabulary;
  vocabulary.bytes = small_tokens();
  vocabulary.kinds.assign(vocabulary.bytes.size(), TokenKind::kText);
  vocabulary.bos = static_cast<int32_t>(vocabulary.bytes.size());
  vocabulary.eos = static_cast<int32_t>(vocabulary.bytes.size() + 1);
  for (const char* name : kSmallControls) {
    vocabulary.bytes.emplace_back(name);
    vocabulary.kinds.push_back(TokenKind::kControl);
  }
  vocabulary.bytes.emplace_back("<unused>");
  vocabulary.kinds.push_back(TokenKind::kUnused);
  return vocabulary;
}

/// The rule as it is stated: look at all adjacent pairs, merge the leftmost of lowest rank, start again.
inline std::vector<int32_t> merge_slowly(const std::map<std::string, int32_t>& ranks, std::string_view piece) {
  if (const auto whole = ranks.find(std::string(piece)); whole != ranks.end()) return {whole->second};
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    auto best = ranks.end();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto pair = ranks.find(parts[i] + parts[i + 1]);
      if (pair != ranks.end() && (best == ranks.end() || pair->second < best->second)) {
        best = pair;
        best_at = i;
      }
    }
    if (best == ranks.end()) break;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best_at) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
  return ids;
}

inline std::map<std::string, int32_t> ranks_of(const std::vector<std::string>& tokens) {
  std::map<std::string, int32_t> ranks;
  for (size_t i = 0; i < tokens.size(); ++i) ranks[tokens[i]] = static_cast<int32_t>(i);
  return ranks;
}

}  // namespace kda::test
