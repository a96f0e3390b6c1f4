// The tokenizer files of a Hugging Face folder, from memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kda {

/// The tokens of a tiktoken.model file, by rank: lines of "base64 rank", the ranks 0..n-1 in any order. `subject` is
/// the file's name in messages. Throws Error(kFormat).
[[nodiscard]] std::vector<std::string> parse_tiktoken(std::string_view text, const std::string& subject);

/// read_folder_vocabulary without the reading: the texts of tiktoken.model and, where there is one,
/// tokenizer_config.json. `folder` is used in messages. Throws Error(kFormat | kLimit).
[[nodiscard]] Vocabulary make_folder_vocabulary(std::string_view tiktoken_model,
                                                std::optional<std::string_view> tokenizer_config, int64_t n_rows,
                                                const std::string& folder);

}  // namespace kda
