// Kimi's splitting pattern written down once more, for a backtracking matcher that knows nothing of the fast one.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace kda::test {

/// A character and what Unicode says of it, given by the test.
struct Symbol {
  std::string_view bytes;
  std::string_view category;  // two letters: "Lu"; "--" for a byte that is no character
  bool han = false;           // Script=Han
  bool white = false;         // White_Space
};

/// Ends of the pieces, counted in symbols.
std::vector<size_t> split_slowly(std::span<const Symbol* const> text);

}  // namespace kda::test
