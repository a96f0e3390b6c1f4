// Typed access to the metadata of a GGUF file.
#include <limits>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "formats/gguf_types.h"
#include "formats/little_endian.h"

namespace kda {

namespace {

std::string describe_value(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(gguf_type_name(value.type));
  const auto& array = std::get<GgufArray>(value.value);
  return fmt::format("ARRAY of {} {}", array.count, gguf_type_name(array.element_type));
}

/// A key of a file, for messages.
struct Subject {
  const std::string& file;
  std::string_view key;

  [[noreturn]] void refuse(std::string_view expected, const std::string& found) const {
    fail(ErrorCode::kFormat, "gguf: {}: key {}: expected {}, found {}", file, quote(key), expected, found);
  }
};

int64_t to_int(const GgufValue& value, const Subject& subject) {
  if (const auto* i = std::get_if<int64_t>(&value.value)) return *i;
  const auto* u = std::get_if<uint64_t>(&value.value);
  if (u == nullptr) subject.refuse("an integer", describe_value(value));
  if (*u > uint64_t{std::numeric_limits<int64_t>::max()}) {
    subject.refuse("an integer below 2^63", fmt::format("{}", *u));
  }
  return static_cast<int64_t>(*u);
}

double to_float(const GgufValue& value, const Subject& subject) {
  const auto* d = std::get_if<double>(&value.value);
  if (d == nullptr) subject.refuse("FLOAT32 or FLOAT64", describe_value(value));
  return *d;
}

/// The elements of an array of values with a fixed size, or the one scalar, each passed through `convert`.
template <typename T>
std::vector<T> to_list(const GgufValue& value, const Subject& subject, std::string_view expected,
                       T (*convert)(const GgufValue&, const Subject&)) {
  const auto* array = std::get_if<GgufArray>(&value.value);
  if (array == nullptr) return {convert(value, subject)};
  const uint64_t size = gguf_type_bytes(array->element_type);
  if (size == 0) subject.refuse(expected, describe_value(value));
  std::vector<T> out;
  out.reserve(array->count);
  for (uint64_t i = 0; i < array->count; ++i) {
    out.push_back(convert(load_gguf_scalar(array->element_type, array->bytes.data() + i * size), subject));
  }
  return out;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) noexcept {
  constexpr std::string_view kNames[kGgufTypeCount] = {"UINT8",  "INT8",    "UINT16", "INT16",  "UINT32",
                                                       "INT32",  "FLOAT32", "BOOL",   "STRING", "ARRAY",
                                                       "UINT64", "INT64",   "FLOAT64"};
  const auto index = static_cast<uint32_t>(type);
  return index < kGgufTypeCount ? kNames[index] : "an unknown type";
}

GgufValue load_gguf_scalar(GgufType type, const std::byte* p) noexcept {
  switch (type) {
    case GgufType::kUint8:
      return {type, uint64_t{load_le<uint8_t>(p)}};
    case GgufType::kInt8:
      return {type, int64_t{load_le<int8_t>(p)}};
    case GgufType::kUint16:
      return {type, uint64_t{load_le<uint16_t>(p)}};
    case GgufType::kInt16:
      return {type, int64_t{load_le<int16_t>(p)}};
    case GgufType::kUint32:
      return {type, uint64_t{load_le<uint32_t>(p)}};
    case GgufType::kInt32:
      return {type, int64_t{load_le<int32_t>(p)}};
    case GgufType::kFloat32:
      return {type, double{load_le<float>(p)}};
    case GgufType::kBool:
      return {type, load_le<uint8_t>(p) != 0};  // other programs take any non-zero byte as true
    case GgufType::kUint64:
      return {type, load_le<uint64_t>(p)};
    case GgufType::kInt64:
      return {type, load_le<int64_t>(p)};
    case GgufType::kFloat64:
      return {type, load_le<double>(p)};
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  check_failed("the type has a fixed size", __FILE__, __LINE__);
}

const GgufValue* GgufFile::find(std::string_view key) const noexcept {
  const auto it = metadata_index_.find(key);
  return it == metadata_index_.end() ? nullptr : &metadata_[it->second].second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view tensor) const noexcept {
  const auto it = tensor_index_.find(tensor);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

std::optional<int64_t> GgufFile::get_int(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_int(*value, {name_, key});
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_float(*value, {name_, key});
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* b = std::get_if<bool>(&value->value);
  if (b == nullptr) Subject{name_, key}.refuse("BOOL", describe_value(*value));
  return *b;
}

std::optional<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* s = std::get_if<std::string_view>(&value->value);
  if (s == nullptr) Subject{name_, key}.refuse("STRING", describe_value(*value));
  return *s;
}

std::optional<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_list<int64_t>(*value, {name_, key}, "integers", to_int);
}

std::optional<std::vector<double>> GgufFile::get_floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_list<double>(*value, {name_, key}, "FLOAT32 or FLOAT64 values", to_float);
}

std::optional<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* s = std::get_if<std::string_view>(&value->value)) return std::vector{*s};
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr || array->element_type != GgufType::kString) {
    Subject{name_, key}.refuse("an ARRAY of STRING", describe_value(*value));
  }
  std::vector<std::string_view> out;
  out.reserve(array->count);
  const std::byte* p = array->bytes.data();  // lengths were checked by the parser
  for (uint64_t i = 0; i < array->count; ++i) {
    const auto length = load_le<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p + sizeof length), length);
    p += sizeof length + length;
  }
  return out;
}

}  // namespace kda
