// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kda::cli {

/// "4G", "500M", "1000": powers of 1000, as the splitters of GGUF files count. Throws Error(kUsage) that begins with
/// `subject` for anything else, zero, and more than fits.
[[nodiscard]] int64_t parse_bytes(std::string_view text, const std::string& subject);

}  // namespace kda::cli
