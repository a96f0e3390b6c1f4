#include "formats/safetensors.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/json.h"
#include "formats/little_endian.h"

namespace kda {

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation
constexpr int kMaxHeaderDepth = 8;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// Bits of an element; nullopt for a dtype that the format does not know.
std::optional<uint64_t> dtype_bits(std::string_view dtype) {
  struct Row {
    std::string_view name;
    uint64_t bits;
  };
  constexpr Row kRows[] = {
      {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
      {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64},
  };
  for (const Row& row : kRows) {
    if (row.name == dtype) return row.bits;
  }
  return std::nullopt;
}

/// One tensor's entry in the header, as far as it can be checked alone.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& tensor, const Json& entry)
      : file_(file), tensor_(tensor), entry_(entry) {
    if (!entry.is_object()) refuse("expected an object, found {}", entry.type_name());
  }

  [[nodiscard]] std::string dtype() const {
    const Json& value = member("dtype");
    if (!value.is_string()) refuse("dtype: expected a string, found {}", value.type_name());
    return value.get<std::string>();
  }

  [[nodiscard]] std::vector<int64_t> shape() const {
    std::vector<int64_t> out;
    for (const uint64_t n : integers("shape")) {
      if (n > uint64_t{std::numeric_limits<int64_t>::max()}) refuse("shape: expected sizes below 2^63, found {}", n);
      out.push_back(static_cast<int64_t>(n));
    }
    return out;
  }

  [[nodiscard]] std::pair<uint64_t, uint64_t> data_offsets() const {
    const std::vector<uint64_t> offsets = integers("data_offsets");
    if (offsets.size() != 2) refuse("data_offsets: expected begin and end, found {} numbers", offsets.size());
    if (offsets[0] > offsets[1]) refuse("data_offsets: expected begin <= end, found {} and {}", offsets[0], offsets[1]);
    return {offsets[0], offsets[1]};
  }

  /// The bytes between the offsets must be those that shape and dtype ask for.
  void check_size(const std::vector<int64_t>& shape, const std::string& dtype, uint64_t size_bytes) const {
    uint64_t n_elements = 1;
    for (const int64_t n : shape) {
      if (__builtin_mul_overflow(n_elements, static_cast<uint64_t>(n), &n_elements) ||
          n_elements > uint64_t{std::numeric_limits<int64_t>::max()}) {
        refuse("shape: number of elements overflows, expected below 2^63");
      }
    }
    const std::optional<uint64_t> bits = dtype_bits(dtype);
    if (!bits) return;  // whoever uses the tensor refuses the dtype by its name
    uint64_t n_bits = 0;
    if (__builtin_mul_overflow(n_elements, *bits, &n_bits)) refuse("size in bits overflows, expected below 2^64");
    if (n_bits % 8 != 0) refuse("size: expected whole bytes, found {} bits", n_bits);
    if (n_bits / 8 != size_bytes) {
      refuse("data_offsets: expected {} bytes for its shape and dtype {}, found {}", n_bits / 8, dtype, size_bytes);
    }
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kFormat, "safetensors: {}: tensor {}: {}", file_, quote(tensor_),
         fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] const Json& member(const char* key) const {
    const auto it = entry_.find(key);
    if (it == entry_.end()) refuse("expected member '{}', found none", key);
    return *it;
  }

  [[nodiscard]] std::vector<uint64_t> integers(const char* key) const {
    const Json& list = member(key);
    if (!list.is_array()) refuse("{}: expected an array, found {}", key, list.type_name());
    std::vector<uint64_t> out;
    for (const Json& value : list) {
      if (!value.is_number_unsigned()) refuse("{}: expected integers of 0 or more, found {}", key, quote(value.dump()));
      out.push_back(value.get<uint64_t>());
    }
    return out;
  }

  const std::string& file_;
  const std::string& tensor_;
  const Json& entry_;
};

void check_metadata(const Json& metadata, const std::string& name) {
  if (!metadata.is_object()) {
    fail(ErrorCode::kFormat, "safetensors: {}: {}: expected an object, found {}", name, kMetadataKey,
         metadata.type_name());
  }
  for (const auto& [key, value] : metadata.items()) {
    if (value.is_string()) continue;
    fail(ErrorCode::kFormat, "safetensors: {}: {}: key {}: expected a string, found {}", name, kMetadataKey, quote(key),
         value.type_name());
  }
}

/// Which file of the folder each tensor is in. The names are checked to be plain ones.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& path) {
  const Json index = read_json_file(path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) {
    fail(ErrorCode::kFormat, "{}: expected an object 'weight_map' with an entry for every tensor, found none",
         path.string());
  }
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    const std::string file_name = file.is_string() ? file.get<std::string>() : std::string();
    const bool plain = !file_name.empty() && file_name != "." && file_name != ".." &&
                       file_name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      fail(ErrorCode::kFormat, "{}: tensor {}: expected the name of a file in the same folder, found {}", path.string(),
           quote(tensor), quote(file.dump(-1, ' ', true)));
    }
    out.emplace(tensor, file_name);
  }
  return out;
}

}  // namespace

int64_t SafeTensor::n_elements() const noexcept {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

SafeTensorsFile SafeTensorsFile::parse(std::span<const std::byte> bytes, std::string name) {
  if (const FileKind kind = find_file_kind(bytes); kind != FileKind::kSafetensors && kind != FileKind::kOther) {
    fail(ErrorCode::kFormat, "safetensors: {}: expected a safetensors file, found {}", name, describe(kind));
  }
  if (bytes.size() < kLengthBytes) {
    fail(ErrorCode::kFormat, "safetensors: {}: expected at least {} bytes, found {}", name, kLengthBytes, bytes.size());
  }
  const auto header_bytes = load_le<uint64_t>(bytes.data());
  if (header_bytes > kMaxHeaderBytes) {
    fail(ErrorCode::kFormat, "safetensors: {}: header length: expected at most {} bytes, found {}", name,
         kMaxHeaderBytes, header_bytes);
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    fail(ErrorCode::kFormat,
         "safetensors: {}: header length: expected at most the {} bytes that follow, found {}; the file is cut off",
         name, bytes.size() - kLengthBytes, header_bytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data() + kLengthBytes), header_bytes);
  if (!text.starts_with('{')) {
    fail(ErrorCode::kFormat, "safetensors: {}: header: expected '{{' first, found {}", name, quote(text.substr(0, 1)));
  }
  if (const size_t end = text.find_last_not_of(' '); text[end] != '}') {
    fail(ErrorCode::kFormat, "safetensors: {}: header: expected '}}' and then only spaces at its end, found {}", name,
         quote(text.substr(end, 1)));
  }
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);

  struct Placed {
    uint64_t begin, end;
    SafeTensor tensor;
  };
  std::vector<Placed> placed;
  const Json header = parse_json(text, "safetensors: " + name + ": header", kMaxHeaderDepth);
  for (const auto& [key, entry] : header.items()) {
    if (key == kMetadataKey) {
      check_metadata(entry, name);
      continue;
    }
    const EntryReader reader(name, key, entry);
    const auto [begin, end] = reader.data_offsets();
    Placed& p = placed.emplace_back(Placed{begin, end, {key, reader.dtype(), reader.shape(), {}}});
    reader.check_size(p.tensor.shape, p.tensor.dtype, end - begin);
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });

  SafeTensorsFile out;
  out.tensors_.reserve(placed.size());
  uint64_t position = 0;
  for (Placed& p : placed) {
    if (p.begin != position) {
      fail(ErrorCode::kFormat,
           "safetensors: {}: tensor {}: data_offsets: expected to begin at {}, where the tensor before ends, found {}",
           name, quote(p.tensor.name), position, p.begin);
    }
    if (p.end > data.size()) {
      fail(ErrorCode::kFormat,
           "safetensors: {}: tensor {} lies past the end of the file: expected {} bytes of data or more, found {}; the "
           "file is cut off or damaged, get it again",
           name, quote(p.tensor.name), p.end, data.size());
    }
    p.tensor.bytes = data.subspan(p.begin, p.end - p.begin);
    position = p.end;
    out.tensors_.push_back(std::move(p.tensor));
  }
  if (position != data.size()) {
    fail(ErrorCode::kFormat, "safetensors: {}: expected the data to end with the last tensor after {} bytes, found {}",
         name, position, data.size());
  }
  return out;
}

SafeTensorsModel SafeTensorsModel::open(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::map<std::string, std::string> weight_map;
  std::set<std::string> file_names;
  const fs::path index_path = folder / kIndexFile;
  if (fs::exists(index_path, ignored)) {
    weight_map = read_weight_map(index_path);
    for (const auto& [tensor, file_name] : weight_map) file_names.insert(file_name);
  } else if (fs::exists(folder / kSingleFile, ignored)) {
    file_names.emplace(kSingleFile);
  } else {
    fail(ErrorCode::kNotFound, "{}: expected {} or {} in the folder, found neither", folder.string(), kSingleFile,
         kIndexFile);
  }

  SafeTensorsModel model;
  model.files_.reserve(file_names.size());
  model.parsed_.reserve(file_names.size());
  for (const std::string& file_name : file_names) {
    const fs::path path = folder / file_name;
    if (!fs::exists(path, ignored)) {
      fail(ErrorCode::kNotFound, "{}: the file is missing, expected it because {} names it; is the download complete?",
           path.string(), kIndexFile);
    }
    model.files_.emplace_back(path);
    model.parsed_.push_back(SafeTensorsFile::parse(model.files_.back().bytes(), path.string()));
    for (const SafeTensor& tensor : model.parsed_.back().tensors()) {
      if (!weight_map.empty()) {
        const auto it = weight_map.find(tensor.name);
        if (it == weight_map.end() || it->second != file_name) {
          fail(ErrorCode::kFormat, "safetensors: {}: tensor {}: expected it {} by {}, found it here", path.string(),
               quote(tensor.name), it == weight_map.end() ? "nowhere" : "in " + quote(it->second), kIndexFile);
        }
      }
      model.index_.emplace(tensor.name, &tensor);
    }
  }
  for (const auto& [tensor, file_name] : weight_map) {
    if (model.index_.contains(tensor)) continue;
    fail(ErrorCode::kFormat, "safetensors: {}: tensor {}: expected it here by {}, found none",
         (folder / file_name).string(), quote(tensor), kIndexFile);
  }
  return model;
}

const SafeTensor* SafeTensorsModel::find(std::string_view name) const noexcept {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : it->second;
}

}  // namespace kda
