#include "tokenizer/merges.h"

#include <cstddef>

#include "tokenizer/byte_pair_encoder.h"

namespace kda {

std::vector<std::pair<int32_t, int32_t>> derive_merges(std::span<const std::string> tokens) {
  const BytePairEncoder encoder(tokens);
  std::vector<std::pair<int32_t, int32_t>> merges;
  merges.reserve(tokens.size());
  std::vector<size_t> ends;  // of the parts of the token at hand, which has at most kMaxTokenBytes
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string_view token = tokens[rank];
    if (token.size() < 2) continue;
    ends.resize(token.size());
    for (size_t i = 0; i < ends.size(); ++i) ends[i] = i + 1;
    const auto part = [&](size_t i, size_t n) {
      const size_t begin = i == 0 ? 0 : ends[i - 1];
      return token.substr(begin, ends[i + n - 1] - begin);
    };
    while (ends.size() > 2) {
      auto best = static_cast<int32_t>(rank);  // only tokens of lower rank may be made
      size_t best_at = ends.size();
      for (size_t i = 0; i + 1 < ends.size(); ++i) {
        const auto id = encoder.find(part(i, 2));
        if (id && *id < best) {
          best = *id;
          best_at = i;
        }
      }
      if (best_at == ends.size()) break;
      ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(best_at));
    }
    if (ends.size() != 2) continue;
    const auto left = encoder.find(part(0, 1));
    const auto right = encoder.find(part(1, 1));
    if (left && right) merges.emplace_back(*left, *right);
  }
  return merges;
}

}  // namespace kda
