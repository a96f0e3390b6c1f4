// Lists of numbers as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kda::cli {

/// "512,4096", "1-4", "128-1024*2" (128, 256, 512, 1024), "0-3000+1000", in the order written; twice the same number
/// counts once. Throws Error(kUsage) that begins with `subject` for anything else, numbers outside [least, most] and
/// lists of more than 1,000.
[[nodiscard]] std::vector<int64_t> parse_numbers(std::string_view text, const std::string& subject, int64_t least,
                                                 int64_t most);

}  // namespace kda::cli
