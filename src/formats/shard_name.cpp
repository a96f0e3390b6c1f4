#include "formats/shard_name.h"

#include <fmt/core.h>

namespace kda {

namespace {

std::optional<int> parse_five_digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<ShardName> parse_shard_name(std::string_view file_name) {
  constexpr std::string_view kSuffix = "-00001-of-00001.gguf";
  if (file_name.size() < kSuffix.size()) return std::nullopt;
  const std::string_view prefix = file_name.substr(0, file_name.size() - kSuffix.size());
  const std::string_view suffix = file_name.substr(prefix.size());
  if (suffix[0] != '-' || suffix.substr(6, 4) != "-of-" || suffix.substr(15) != ".gguf") return std::nullopt;
  const std::optional<int> number = parse_five_digits(suffix.substr(1, 5));
  const std::optional<int> count = parse_five_digits(suffix.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return ShardName{std::string(prefix), *number, *count};
}

std::string format_shard_name(const ShardName& shard) {
  return fmt::format("{}-{:05d}-of-{:05d}.gguf", shard.prefix, shard.number, shard.count);
}

}  // namespace kda
