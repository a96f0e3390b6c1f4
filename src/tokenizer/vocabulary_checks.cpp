#include "tokenizer/vocabulary_checks.h"

#include "base/error.h"

namespace kda {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 22;

}  // namespace

void check_row_count(int64_t n_rows) {
  if (n_rows < 1 || n_rows > kMaxRows) {
    fail(ErrorCode::kLimit, "vocabulary: the embedding has {} rows, expected 1 to {}", n_rows, kMaxRows);
  }
}

std::string reserved_name(int64_t id) { return fmt::format("<|reserved_token_{}|>", id); }

std::optional<int32_t> accept_special_id(std::optional<int64_t> id, std::string_view role, Vocabulary& vocabulary) {
  if (!id) return std::nullopt;
  const auto n_tokens = static_cast<int64_t>(vocabulary.kinds.size());
  if (*id < 0 || *id >= n_tokens) {
    vocabulary.notes.push_back(
        fmt::format("the {} token id {} is ignored: it is out of range, there are {} tokens", role, *id, n_tokens));
    return std::nullopt;
  }
  if (vocabulary.kinds[*id] == TokenKind::kText) {
    vocabulary.notes.push_back(fmt::format("the {} token id {} is ignored: it is ordinary text", role, *id));
    return std::nullopt;
  }
  return static_cast<int32_t>(*id);
}

}  // namespace kda
