// Names of the parts of a split GGUF set: PREFIX-00001-of-00003.gguf.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kda {

struct ShardName {
  std::string prefix;
  int number = 1;  // from 1
  int count = 1;
};

/// nullopt when `file_name` is not of that form, or its number is outside 1..count.
[[nodiscard]] std::optional<ShardName> parse_shard_name(std::string_view file_name);

/// The file name.
[[nodiscard]] std::string format_shard_name(const ShardName& shard);

}  // namespace kda
