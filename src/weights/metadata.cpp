#include "weights/metadata.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "formats/gguf.h"
#include "formats/json.h"

namespace kda {

namespace {

constexpr size_t kMaxText = 200;     // bytes of a value
constexpr size_t kMaxElements = 64;  // of an array that are shown

/// Cuts at a character of UTF-8 and makes control characters visible.
std::string shorten(std::string_view text) {
  size_t end = std::min(text.size(), kMaxText);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  std::string out;
  for (const char c : text.substr(0, end)) {
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  if (end < text.size()) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

template <typename T>
std::string join_array(const std::vector<T>& values, uint64_t count) {
  const size_t shown = std::min(values.size(), kMaxElements);
  return fmt::format("[{}{}]", fmt::join(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < count ? fmt::format(", ... ({} values)", count) : "");
}

std::string to_text(const GgufFile& file, std::string_view key, const GgufArray& array) {
  switch (array.element_type) {
    case GgufType::kFloat32:
    case GgufType::kFloat64:
      return join_array(*file.get_floats(key), array.count);
    case GgufType::kString:
      return fmt::format("[{} strings]", array.count);
    case GgufType::kArray:
      return fmt::format("[{} arrays]", array.count);
    case GgufType::kBool:
      return fmt::format("[{} booleans]", array.count);
    default:
      return join_array(*file.get_ints(key), array.count);
  }
}

std::string to_text(const GgufFile& file, std::string_view key, const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value.value)) return to_text(file, key, *array);
  if (const auto* text = std::get_if<std::string_view>(&value.value)) return shorten(*text);
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value.value)) {
    return value.type == GgufType::kFloat32 ? fmt::format("{}", static_cast<float>(*real)) : fmt::format("{}", *real);
  }
  if (const auto* number = std::get_if<int64_t>(&value.value)) return std::to_string(*number);
  return std::to_string(std::get<uint64_t>(value.value));
}

}  // namespace

MetadataListing list_metadata(const GgufFile& file) {
  MetadataListing out;
  for (const auto& [key, value] : file.metadata()) out.emplace_back(key, to_text(file, key, value));
  return out;
}

MetadataListing list_metadata(std::string_view json_object) {
  MetadataListing out;
  const OrderedJson object = OrderedJson::parse(json_object);
  for (const auto& [key, value] : object.items()) {
    out.emplace_back(shorten(key), shorten(value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return out;
}

}  // namespace kda
