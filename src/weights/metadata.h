// Metadata of either format as text, for people.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kda {

class GgufFile;

using MetadataListing = std::vector<std::pair<std::string, std::string>>;

/// Keys and values in file order; long values shortened, control characters escaped.
[[nodiscard]] MetadataListing list_metadata(const GgufFile& file);

/// The top level of a JSON object, which must be valid.
[[nodiscard]] MetadataListing list_metadata(std::string_view json_object);

}  // namespace kda
