// The merge list that GGUF files carry, from a vocabulary that has only ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kda {

/// For each token of two bytes or more, in order of rank: the two tokens that byte-pair encoding with the tokens of
/// lower rank leaves of it (model-spec 6.5). A token of which more than two are left cannot be reached by merging and
/// has no entry. tokens by rank, as BytePairEncoder takes them; throws as its constructor does.
[[nodiscard]] std::vector<std::pair<int32_t, int32_t>> derive_merges(std::span<const std::string> tokens);

}  // namespace kda
