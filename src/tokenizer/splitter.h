// Cuts text into the pieces within which byte pairs are merged.
#pragma once

#include <cstddef>
#include <string_view>

namespace kda {

/// End of the piece that begins at text[begin], by Kimi's pattern (model-spec 6.2); begin < text.size(). Always beyond
/// begin. A byte that is not part of well-formed UTF-8 counts as a character that is no letter, digit or space. Cutting
/// a whole text piece by piece takes time linear in its length, whatever it holds.
[[nodiscard]] size_t piece_end(std::string_view text, size_t begin) noexcept;

}  // namespace kda
