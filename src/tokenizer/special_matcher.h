// Finds the names of control tokens in text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kda {

/// Immutable after construction; all members are thread-safe.
class SpecialMatcher {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = -1;
  };

  /// Names and ids; the caller keeps the names alive. Throws Error(kFormat) when a name is empty, longer than
  /// kMaxTokenBytes or there twice.
  explicit SpecialMatcher(std::vector<std::pair<std::string_view, int32_t>> names);

  /// The leftmost name in the text at or after `begin`, the longest of those that begin there; nullopt: none.
  [[nodiscard]] std::optional<Match> find_in(std::string_view text, size_t begin) const noexcept;

  /// The id of a name.
  [[nodiscard]] std::optional<int32_t> find(std::string_view name) const noexcept;

 private:
  std::vector<std::pair<std::string_view, int32_t>> names_;  // by name
  std::array<bool, 256> starts_{};                           // whether a name begins with this byte
};

}  // namespace kda
