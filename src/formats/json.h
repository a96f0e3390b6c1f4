// The one place that names the JSON library.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace kda {

using Json = nlohmann::json;
/// Keeps the order of keys.
using OrderedJson = nlohmann::ordered_json;

/// Parses UTF-8 JSON with bounded depth and number of values; duplicate keys in one object are an error. Throws
/// Error(kFormat | kLimit) that names `subject` and the byte at which it went wrong.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& subject, int max_depth = 64);

/// Reads a whole JSON file, at most max_bytes long. Throws Error(kNotFound | kIo | kLimit | kFormat).
[[nodiscard]] Json read_json_file(const std::filesystem::path& path, size_t max_bytes = size_t{64} << 20);

/// Reads a whole file as text, at most max_bytes long. Throws Error(kNotFound | kIo | kLimit).
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, size_t max_bytes);

}  // namespace kda
