#include "tokenizer/special_matcher.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/byte_pair_encoder.h"

namespace kda {

SpecialMatcher::SpecialMatcher(std::vector<std::pair<std::string_view, int32_t>> names) : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto& [name, id] = names_[i];
    if (name.empty() || name.size() > kMaxTokenBytes) {
      fail(ErrorCode::kFormat, "vocabulary: the name of control token {} has {} bytes, expected 1 to {}", id,
           name.size(), kMaxTokenBytes);
    }
    if (i > 0 && names_[i - 1].first == name) {
      fail(ErrorCode::kFormat, "vocabulary: control tokens {} and {} have the same name", names_[i - 1].second, id);
    }
    starts_[static_cast<uint8_t>(name.front())] = true;
  }
}

std::optional<SpecialMatcher::Match> SpecialMatcher::find_in(std::string_view text, size_t begin) const noexcept {
  for (; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    // Narrow the sorted names to those that agree with the text, one byte at a time. A name that ends comes first.
    auto low = names_.begin();
    auto high = names_.end();
    Match match;
    for (size_t n = 0; low != high; ++n) {
      if (low->first.size() == n) {
        match = {begin, begin + n, low->second};
        if (++low == high) break;
      }
      if (begin + n == text.size()) break;
      const auto byte_at_n = [n](const auto& entry) { return static_cast<uint8_t>(entry.first[n]); };
      const auto byte = static_cast<uint8_t>(text[begin + n]);
      low = std::partition_point(low, high, [&](const auto& entry) { return byte_at_n(entry) < byte; });
      high = std::partition_point(low, high, [&](const auto& entry) { return byte_at_n(entry) == byte; });
    }
    if (match.id >= 0) return match;
  }
  return std::nullopt;
}

std::optional<int32_t> SpecialMatcher::find(std::string_view name) const noexcept {
  const auto found =
      std::partition_point(names_.begin(), names_.end(), [&](const auto& entry) { return entry.first < name; });
  if (found == names_.end() || found->first != name) return std::nullopt;
  return found->second;
}

}  // namespace kda
