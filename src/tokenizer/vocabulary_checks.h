// What the readers of vocabularies have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace kda {

/// Throws Error(kLimit) for a number of embedding rows that no vocabulary has (the largest known ones have 2^18).
void check_row_count(int64_t n_rows);

/// The name of a special id that the files give no name.
[[nodiscard]] std::string reserved_name(int64_t id);

/// `id` if it is a token other than text, else nullopt and a note. `role` is what the file calls it: "bos".
[[nodiscard]] std::optional<int32_t> accept_special_id(std::optional<int64_t> id, std::string_view role,
                                                       Vocabulary& vocabulary);

}  // namespace kda
