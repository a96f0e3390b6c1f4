#include "cli/parse_bytes.h"

#include <charconv>
#include <limits>

#include "base/error.h"
#include "cli/text.h"

namespace kda::cli {

int64_t parse_bytes(std::string_view text, const std::string& subject) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(after, static_cast<size_t>(end - after));
  int64_t factor = 0;
  if (unit.empty()) factor = 1;
  if (unit == "K" || unit == "k") factor = 1'000;
  if (unit == "M" || unit == "m") factor = 1'000'000;
  if (unit == "G" || unit == "g") factor = 1'000'000'000;
  if (error != std::errc() || value < 1 || factor == 0 || value > std::numeric_limits<int64_t>::max() / factor) {
    fail(ErrorCode::kUsage, "{}: expected a number of bytes as in 4G, 500M or 1000000, found {}", subject, quote(text));
  }
  return value * factor;
}

}  // namespace kda::cli
