#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/vocabulary_checks.h"

namespace kda {
namespace {

constexpr std::string_view kModel = "gpt2";
constexpr std::string_view kPre = "kimi-k2";

// Values of tokenizer.ggml.token_type.
enum GgufTokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControlType = 3,
  kUserDefined = 4,
  kUnusedType = 5,
};

TokenKind kind_of(int64_t type, size_t id, const std::string& file) {
  switch (type) {
    case kNormal:
      return TokenKind::kText;
    case kUnknown:
    case kControlType:
    case kUserDefined:
      return TokenKind::kControl;
    case kUnusedType:
      return TokenKind::kUnused;
    default:
      fail(ErrorCode::kFormat, "{}: token {} has type {}, expected 1 to 5", file, id, type);
  }
}

void check_splitting(const GgufFile& file, Vocabulary& vocabulary) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (!model) fail(ErrorCode::kFormat, "{}: no tokenizer.ggml.model, expected '{}'", file.name(), kModel);
  if (*model != kModel) {
    fail(ErrorCode::kUnsupported, "{}: tokenizer.ggml.model is {}, expected '{}'", file.name(), quote(*model), kModel);
  }
  const auto pre = file.get_string("tokenizer.ggml.pre");
  if (!pre) {
    vocabulary.notes.push_back(fmt::format("no tokenizer.ggml.pre: text is split as for '{}'", kPre));
  } else if (*pre != kPre) {
    fail(ErrorCode::kUnsupported, "{}: tokenizer.ggml.pre is {}, expected '{}'", file.name(), quote(*pre), kPre);
  }
}

}  // namespace

// The merges are not read: the ids of the text tokens are their ranks (model-spec 6.3).
Vocabulary read_gguf_vocabulary(const GgufFile& file, int64_t n_rows) {
  check_row_count(n_rows);
  Vocabulary vocabulary;
  check_splitting(file, vocabulary);
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (!tokens) fail(ErrorCode::kFormat, "{}: no tokenizer.ggml.tokens", file.name());
  const auto types = file.get_ints("tokenizer.ggml.token_type");
  if (!types) fail(ErrorCode::kFormat, "{}: no tokenizer.ggml.token_type", file.name());
  if (tokens->size() != types->size()) {
    fail(ErrorCode::kFormat, "{}: {} tokens and {} token types, expected as many", file.name(), tokens->size(),
         types->size());
  }

  const auto n_tokens = static_cast<size_t>(n_rows);
  const size_t n_given = std::min(tokens->size(), n_tokens);
  if (tokens->size() > n_tokens) {
    vocabulary.notes.push_back(fmt::format("{} tokens for {} rows of the embedding: the last {} are left out",
                                           tokens->size(), n_rows, tokens->size() - n_given));
  } else if (tokens->size() < n_tokens) {
    vocabulary.notes.push_back(fmt::format("{} tokens for {} rows of the embedding: the last {} rows are placeholders",
                                           tokens->size(), n_rows, n_tokens - n_given));
  }
  vocabulary.bytes.reserve(n_tokens);
  vocabulary.kinds.reserve(n_tokens);
  for (size_t id = 0; id < n_given; ++id) {
    const TokenKind kind = kind_of((*types)[id], id, file.name());
    vocabulary.kinds.push_back(kind);
    if (kind != TokenKind::kText) {
      vocabulary.bytes.emplace_back((*tokens)[id]);
      continue;
    }
    auto bytes = decode_byte_alphabet((*tokens)[id]);
    if (!bytes) {
      fail(ErrorCode::kFormat, "{}: token {} is not written in GPT-2's byte alphabet", file.name(), id);
    }
    vocabulary.bytes.push_back(std::move(*bytes));
  }
  for (size_t id = n_given; id < n_tokens; ++id) {
    vocabulary.kinds.push_back(TokenKind::kUnused);
    vocabulary.bytes.push_back(reserved_name(static_cast<int64_t>(id)));
  }
  vocabulary.bos = accept_special_id(file.get_int("tokenizer.ggml.bos_token_id"), "bos", vocabulary);
  vocabulary.eos = accept_special_id(file.get_int("tokenizer.ggml.eos_token_id"), "eos", vocabulary);
  vocabulary.eot = accept_special_id(file.get_int("tokenizer.ggml.eot_token_id"), "eot", vocabulary);
  vocabulary.pad = accept_special_id(file.get_int("tokenizer.ggml.padding_token_id"), "padding", vocabulary);
  vocabulary.add_bos = file.get_bool("tokenizer.ggml.add_bos_token").value_or(false);
  return vocabulary;
}

}  // namespace kda
