#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "formats/gguf_types.h"

namespace kda {

namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& out, std::span<const std::byte> bytes) {
  const size_t old_size = out.size();
  out.resize(old_size + bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.data() + old_size);
}

template <typename T>
void append_number(Bytes& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  append(out, std::as_bytes(std::span(&value, 1)));
}

void append_string(Bytes& out, std::string_view text) {
  append_number(out, uint64_t{text.size()});
  append(out, std::as_bytes(std::span(text)));
}

void append_scalar(Bytes& out, const GgufValue& value) {
  const auto as_unsigned = [&] { return std::get<uint64_t>(value.value); };
  const auto as_signed = [&] { return std::get<int64_t>(value.value); };
  switch (value.type) {
    case GgufType::kUint8:
      return append_number(out, static_cast<uint8_t>(as_unsigned()));
    case GgufType::kInt8:
      return append_number(out, static_cast<int8_t>(as_signed()));
    case GgufType::kUint16:
      return append_number(out, static_cast<uint16_t>(as_unsigned()));
    case GgufType::kInt16:
      return append_number(out, static_cast<int16_t>(as_signed()));
    case GgufType::kUint32:
      return append_number(out, static_cast<uint32_t>(as_unsigned()));
    case GgufType::kInt32:
      return append_number(out, static_cast<int32_t>(as_signed()));
    case GgufType::kFloat32:
      return append_number(out, static_cast<float>(std::get<double>(value.value)));
    case GgufType::kBool:
      return append_number(out, static_cast<uint8_t>(std::get<bool>(value.value)));
    case GgufType::kUint64:
      return append_number(out, as_unsigned());
    case GgufType::kInt64:
      return append_number(out, as_signed());
    case GgufType::kFloat64:
      return append_number(out, std::get<double>(value.value));
    case GgufType::kString:
      return append_string(out, std::get<std::string_view>(value.value));
    case GgufType::kArray:
      break;
  }
  check_failed("the value is not an array", __FILE__, __LINE__);
}

void pad(Bytes& out, uint64_t alignment) { out.resize(round_up(out.size(), alignment)); }

}  // namespace

void GgufWriter::begin_value(std::string_view key, GgufType type) {
  const bool printable = std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  if (key.empty() || key.size() > kGgufMaxKeyLength || !printable) {
    fail(ErrorCode::kUsage, "gguf writer: key {}: expected 1 to {} characters of printable ASCII, found {} bytes",
         quote(key), kGgufMaxKeyLength, key.size());
  }
  if (key == kGgufAlignmentKey && type != GgufType::kUint32) {
    fail(ErrorCode::kUsage, "gguf writer: key '{}': expected UINT32, found {}", key, gguf_type_name(type));
  }
  if (!keys_.emplace(key).second)
    fail(ErrorCode::kUsage, "gguf writer: key {} is added twice, expected once", quote(key));
  append_string(metadata_, key);
  append_number(metadata_, static_cast<uint32_t>(type));
}

void GgufWriter::begin_array(std::string_view key, GgufType element_type, uint64_t count) {
  begin_value(key, GgufType::kArray);
  append_number(metadata_, static_cast<uint32_t>(element_type));
  append_number(metadata_, count);
}

void GgufWriter::add_value(std::string_view key, const GgufValue& value) {
  if (value.type == GgufType::kArray) {
    const auto& array = std::get<GgufArray>(value.value);
    begin_array(key, array.element_type, array.count);
    append(metadata_, array.bytes);
    return;
  }
  if (key == kGgufAlignmentKey && value.type == GgufType::kUint32) {
    const uint64_t alignment = std::get<uint64_t>(value.value);
    if (!is_gguf_alignment(alignment)) {
      fail(ErrorCode::kUsage, "gguf writer: alignment: expected a power of two up to {}, found {}", kGgufMaxAlignment,
           alignment);
    }
  }
  begin_value(key, value.type);
  append_scalar(metadata_, value);
  if (key == kGgufAlignmentKey) alignment_ = static_cast<uint32_t>(std::get<uint64_t>(value.value));
}

void GgufWriter::add_uint32(std::string_view key, uint32_t value) {
  add_value(key, {GgufType::kUint32, uint64_t{value}});
}

void GgufWriter::add_uint16(std::string_view key, uint16_t value) {
  add_value(key, {GgufType::kUint16, uint64_t{value}});
}

void GgufWriter::add_int32(std::string_view key, int32_t value) { add_value(key, {GgufType::kInt32, int64_t{value}}); }

void GgufWriter::add_float32(std::string_view key, float value) { add_value(key, {GgufType::kFloat32, double{value}}); }

void GgufWriter::add_bool(std::string_view key, bool value) { add_value(key, {GgufType::kBool, value}); }

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  add_value(key, {GgufType::kString, value});
}

void GgufWriter::add_int32_array(std::string_view key, std::span<const int32_t> values) {
  add_value(key, {GgufType::kArray, GgufArray{GgufType::kInt32, values.size(), std::as_bytes(values)}});
}

void GgufWriter::add_float32_array(std::string_view key, std::span<const float> values) {
  add_value(key, {GgufType::kArray, GgufArray{GgufType::kFloat32, values.size(), std::as_bytes(values)}});
}

void GgufWriter::add_string_array(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::kString, values.size());
  for (const std::string& value : values) append_string(metadata_, value);
}

void GgufWriter::add_tensor(std::string_view name, TensorType type, std::span<const int64_t> ne,
                            std::span<const std::byte> bytes) {
  declare_tensor(name, type, ne);
  Tensor& tensor = tensors_.back();
  if (bytes.size() != tensor.size_bytes) {
    fail(ErrorCode::kUsage, "gguf writer: tensor {}: expected {} bytes for its dimensions and type {}, found {}",
         quote(name), tensor.size_bytes, type_info(type).name, bytes.size());
  }
  tensor.bytes = bytes;
}

void GgufWriter::declare_tensor(std::string_view name, TensorType type, std::span<const int64_t> ne) {
  if (name.empty() || name.size() > kGgufMaxTensorNameLength || name.find('\0') != std::string_view::npos) {
    fail(ErrorCode::kUsage, "gguf writer: tensor {}: expected a name of 1 to {} bytes without NUL, found {} bytes",
         quote(name), kGgufMaxTensorNameLength, name.size());
  }
  if (!tensor_names_.emplace(name).second) {
    fail(ErrorCode::kUsage, "gguf writer: tensor {} is added twice, expected once", quote(name));
  }
  if (ne.empty() || ne.size() > kGgufMaxDims) {
    fail(ErrorCode::kUsage, "gguf writer: tensor {}: expected 1 to {} dimensions, found {}", quote(name), kGgufMaxDims,
         ne.size());
  }
  const TensorTypeInfo& info = type_info(type);
  int64_t size = 1;
  for (const int64_t n : ne) {
    if (n < 1 || n > std::numeric_limits<int64_t>::max() / info.block_bytes / size) {
      fail(ErrorCode::kUsage, "gguf writer: tensor {}: expected positive dimensions and less than 2^63 bytes, found {}",
           quote(name), n);
    }
    size *= n;
  }
  if (ne[0] % info.block_elements != 0) {
    fail(ErrorCode::kUsage, "gguf writer: tensor {}: expected rows of a multiple of {} elements for {}, found {}",
         quote(name), info.block_elements, info.name, ne[0]);
  }
  size = size / info.block_elements * info.block_bytes;
  tensors_.push_back({std::string(name), type, {ne.begin(), ne.end()}, static_cast<uint64_t>(size), {}});
}

void GgufWriter::set_alignment(uint32_t alignment) { add_uint32(kGgufAlignmentKey, alignment); }

void GgufWriter::set_version(uint32_t version) {
  if (version != 2 && version != 3) fail(ErrorCode::kUsage, "gguf writer: version: expected 2 or 3, found {}", version);
  version_ = version;
}

std::vector<std::byte> GgufWriter::head() const {
  Bytes out;
  append(out, std::as_bytes(std::span(kGgufMagic)));
  append_number(out, version_);
  append_number(out, uint64_t{tensors_.size()});
  append_number(out, uint64_t{keys_.size()});
  append(out, metadata_);
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.ne.size()));
    for (const int64_t n : tensor.ne) append_number(out, n);
    append_number(out, static_cast<uint32_t>(tensor.type));
    append_number(out, offset);
    offset += round_up(tensor.size_bytes, alignment_);
  }
  if (!tensors_.empty()) pad(out, alignment_);
  return out;
}

std::vector<std::byte> GgufWriter::finish() const {
  Bytes out = head();
  for (const Tensor& tensor : tensors_) {
    KDA_CHECK(tensor.bytes.size() == tensor.size_bytes);
    append(out, tensor.bytes);
    pad(out, alignment_);
  }
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const {
  AtomicFile file(path);
  file.write(head());
  const Bytes zeros(alignment_);
  for (const Tensor& tensor : tensors_) {
    KDA_CHECK(tensor.bytes.size() == tensor.size_bytes);
    file.write(tensor.bytes);
    file.write(std::span(zeros).first(round_up(tensor.bytes.size(), alignment_) - tensor.bytes.size()));
  }
  file.commit();
}

}  // namespace kda
