// Bytes of one GGUF file -> tables. Every length is compared with what is left of the file before it is used, by
// subtraction and division so that nothing wraps; nothing is reserved for a count that the bytes could not hold.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "formats/gguf_types.h"
#include "formats/little_endian.h"

namespace kda {

namespace {

constexpr uint64_t kMinMetadataBytes = 13;      // key length, type, value of one byte
constexpr uint64_t kMinTensorBytes = 24;        // name length, n_dims, type, offset
constexpr uint64_t kMinNestedArrayBytes = 12;   // element type, count
constexpr uint64_t kMaxArrayCount = 1U << 30U;  // as llama.cpp
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMaxReserve = 4096;  // more than real models need; beyond it tables grow with what was read

bool is_printable_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string name) : bytes_(bytes) { file_.name_ = std::move(name); }

  GgufFile parse() {
    read_header();
    read_metadata();
    read_alignment();
    read_tensor_infos();
    place_tensors();
    check_order();
    return std::move(file_);
  }

 private:
  /// The part of the file that is being read, for messages.
  struct Subject {
    std::string_view what = "header";
    uint64_t index = 0;     // of the entry
    std::string_view name;  // of the entry once it is known
  };

  /// Where a tensor says that its data lies, from the start of the data part.
  struct Place {
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
  };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    std::string subject(subject_.what);
    if (subject_.name.data() != nullptr) {
      subject += " " + quote(subject_.name);
    } else if (subject_.what != "header") {
      subject += fmt::format(" {}", subject_.index);
    }
    fail(ErrorCode::kFormat, "gguf: {}: {}: {}", file_.name_, subject,
         fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] uint64_t remaining() const noexcept { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t n, std::string_view what) {
    if (n > remaining()) {
      refuse("{} goes past the end of the file: expected {} bytes at byte {}, found {}", what, n, position_,
             remaining());
    }
    const auto out = bytes_.subspan(position_, n);
    position_ += n;
    return out;
  }

  template <typename T>
  T read(std::string_view what) {
    return load_le<T>(take(sizeof(T), what).data());
  }

  std::string_view read_string(std::string_view what) {
    const auto text = take(read<uint64_t>(what), what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  void read_header() {
    const FileKind kind = find_file_kind(bytes_);
    if (kind != FileKind::kGguf) {
      fail(ErrorCode::kFormat, "gguf: {}: expected a GGUF file, found {}", file_.name_, describe(kind));
    }
    position_ = kGgufMagic.size();
    const auto version = read<uint32_t>("version");
    if (version != 0 && (version & 0xFFFFU) == 0) {
      fail(ErrorCode::kUnsupported,
           "gguf: {}: version word is {:#010x}, which is that of a big-endian file, expected a little-endian one; "
           "convert it for little-endian machines",
           file_.name_, version);
    }
    if (version != 2 && version != 3) {
      fail(ErrorCode::kUnsupported, "gguf: {}: version is {}, expected 2 or 3{}", file_.name_, version,
           version == 1 ? "; version 1 is obsolete, convert the original model again" : "");
    }
    file_.version_ = version;
    n_tensors_ = read<uint64_t>("tensor count");
    n_metadata_ = read<uint64_t>("metadata count");
    if (n_metadata_ > remaining() / kMinMetadataBytes) {
      refuse("metadata count is {}, expected at most {} in the {} bytes that follow", n_metadata_,
             remaining() / kMinMetadataBytes, remaining());
    }
    if (n_tensors_ > remaining() / kMinTensorBytes) {
      refuse("tensor count is {}, expected at most {} in the {} bytes that follow", n_tensors_,
             remaining() / kMinTensorBytes, remaining());
    }
  }

  void read_metadata() {
    file_.metadata_.reserve(std::min(n_metadata_, kMaxReserve));
    for (uint64_t i = 0; i < n_metadata_; ++i) {
      subject_ = {"metadata entry", i, {}};
      const std::string_view key = read_string("key");
      if (key.empty() || key.size() > kGgufMaxKeyLength) {
        refuse("key has {} bytes, expected 1 to {}", key.size(), kGgufMaxKeyLength);
      }
      if (!is_printable_ascii(key)) refuse("key is {}, expected printable ASCII", quote(key));
      subject_ = {"key", i, key};
      if (!file_.metadata_index_.emplace(key, i).second) refuse("is there twice, expected once");
      file_.metadata_.emplace_back(key, read_value());
    }
  }

  GgufType read_value_type(std::string_view what) {
    const auto type = read<uint32_t>(what);
    if (type >= kGgufTypeCount) refuse("{} is {}, expected 0 to {}", what, type, kGgufTypeCount - 1);
    return static_cast<GgufType>(type);
  }

  GgufValue read_value() {
    const GgufType type = read_value_type("value type");
    if (type == GgufType::kString) return {type, read_string("string")};
    if (type == GgufType::kArray) return {type, read_array(1)};
    return load_gguf_scalar(type, take(gguf_type_bytes(type), "value").data());
  }

  GgufArray read_array(int depth) {
    if (depth > kMaxArrayDepth) refuse("arrays nest deeper than expected, {} levels at most", kMaxArrayDepth);
    GgufArray array;
    array.element_type = read_value_type("array element type");
    array.count = read<uint64_t>("array count");
    if (array.count > kMaxArrayCount) refuse("array count is {}, expected at most {}", array.count, kMaxArrayCount);
    const uint64_t size = gguf_type_bytes(array.element_type);
    const uint64_t min_size = array.element_type == GgufType::kString  ? sizeof(uint64_t)
                              : array.element_type == GgufType::kArray ? kMinNestedArrayBytes
                                                                       : size;
    if (array.count > remaining() / min_size) {
      refuse("array of {} {} goes past the end of the file: expected at most {} elements in the {} bytes left",
             array.count, gguf_type_name(array.element_type), remaining() / min_size, remaining());
    }
    const uint64_t start = position_;
    if (size != 0) {
      position_ += array.count * size;
    } else {
      for (uint64_t i = 0; i < array.count; ++i) {
        if (array.element_type == GgufType::kString) {
          read_string("string in an array");
        } else {
          read_array(depth + 1);
        }
      }
    }
    array.bytes = bytes_.subspan(start, position_ - start);
    return array;
  }

  void read_alignment() {
    const GgufValue* value = file_.find(kGgufAlignmentKey);
    if (value == nullptr) return;
    subject_ = {"key", 0, kGgufAlignmentKey};
    if (value->type != GgufType::kUint32) refuse("expected UINT32, found {}", gguf_type_name(value->type));
    const uint64_t alignment = std::get<uint64_t>(value->value);
    if (!is_gguf_alignment(alignment)) {
      refuse("expected a power of two up to {}, found {}", kGgufMaxAlignment, alignment);
    }
    file_.alignment_ = static_cast<uint32_t>(alignment);
  }

  void read_tensor_infos() {
    file_.tensors_.reserve(std::min(n_tensors_, kMaxReserve));
    places_.reserve(std::min(n_tensors_, kMaxReserve));
    for (uint64_t i = 0; i < n_tensors_; ++i) {
      subject_ = {"tensor", i, {}};
      const std::string_view name = read_string("name");
      if (name.empty() || name.size() > kGgufMaxTensorNameLength) {
        refuse("name has {} bytes, expected 1 to {}", name.size(), kGgufMaxTensorNameLength);
      }
      subject_.name = name;
      if (name.find('\0') != std::string_view::npos) refuse("name has a NUL byte, expected none");
      if (!file_.tensor_index_.emplace(name, i).second) refuse("is there twice, expected once");
      file_.tensors_.push_back(read_tensor_info(name));
    }
  }

  GgufTensor read_tensor_info(std::string_view name) {
    GgufTensor tensor;
    tensor.name = name;
    const auto n_dims = read<uint32_t>("number of dimensions");
    if (n_dims < 1 || n_dims > kGgufMaxDims) refuse("has {} dimensions, expected 1 to {}", n_dims, kGgufMaxDims);
    tensor.n_dims = static_cast<int>(n_dims);
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    uint64_t n_elements = 1;
    for (uint32_t d = 0; d < n_dims; ++d) {
      const auto n = read<uint64_t>("dimension");
      if (n < 1 || n > kMax) refuse("dimension {} is {}, expected 1 to {}", d, n, kMax);
      if (n > kMax / n_elements) refuse("number of elements overflows at dimension {}, expected below 2^63", d);
      n_elements *= n;
      tensor.ne[d] = static_cast<int64_t>(n);
    }

    const auto type = read<uint32_t>("type");
    const TensorTypeInfo* info = find_tensor_type(type);
    if (info == nullptr) {
      const std::string_view withdrawn = withdrawn_type_name(type);
      if (withdrawn.empty()) refuse("type is {}, expected a known type below {}", type, kTensorTypeCount);
      refuse("type is {} ({}), which was withdrawn from ggml; expected a type in use, convert the original model again",
             type, withdrawn);
    }
    tensor.type = info->type;
    if (tensor.ne[0] % info->block_elements != 0) {
      refuse("rows have {} elements, expected a multiple of {} for {}", tensor.ne[0], info->block_elements, info->name);
    }
    const uint64_t n_blocks = n_elements / static_cast<uint64_t>(info->block_elements);
    const auto block_bytes = static_cast<uint64_t>(info->block_bytes);
    if (n_blocks > kMax / block_bytes) refuse("size in bytes overflows, expected below 2^63");

    const auto offset = read<uint64_t>("offset");
    if (offset % file_.alignment_ != 0) {
      refuse("offset is {}, expected a multiple of the alignment, {}", offset, file_.alignment_);
    }
    places_.push_back({offset, n_blocks * block_bytes});
    return tensor;
  }

  void place_tensors() {
    file_.data_offset_ = n_tensors_ == 0 ? position_ : round_up(position_, file_.alignment_);
    const uint64_t data_bytes = bytes_.size() - std::min<uint64_t>(file_.data_offset_, bytes_.size());
    for (size_t i = 0; i < file_.tensors_.size(); ++i) {
      subject_ = {"tensor", i, file_.tensors_[i].name};
      const Place& place = places_[i];
      if (place.offset > data_bytes || place.size_bytes > data_bytes - place.offset) {
        refuse(
            "lies past the end of the file: expected {} bytes at offset {} of the data, found {} bytes of data in all; "
            "the file is cut off or damaged, get it again",
            place.size_bytes, place.offset, data_bytes);
      }
      file_.tensors_[i].bytes = bytes_.subspan(file_.data_offset_ + place.offset, place.size_bytes);
    }
  }

  void check_order() {
    std::vector<size_t> order(places_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::pair(places_[a].offset, a) < std::pair(places_[b].offset, b); });
    if (!std::is_sorted(order.begin(), order.end())) {
      file_.warnings_.emplace_back("the data of the tensors is not in the order of their table");
    }
    uint64_t end = 0;  // of the tensor before
    size_t n_gaps = 0;
    std::string first_gap;
    for (size_t rank = 0; rank < order.size(); ++rank) {
      const size_t i = order[rank];
      subject_ = {"tensor", i, file_.tensors_[i].name};
      if (places_[i].offset < end) {
        refuse("overlaps tensor {}: expected offset {} or more, found {}", quote(file_.tensors_[order[rank - 1]].name),
               end, places_[i].offset);
      }
      if (places_[i].offset > round_up(end, file_.alignment_) && n_gaps++ == 0) {
        first_gap = fmt::format("{} bytes before tensor {}", places_[i].offset - end, quote(file_.tensors_[i].name));
      }
      end = places_[i].offset + places_[i].size_bytes;
    }
    if (n_gaps > 0) {
      file_.warnings_.push_back(fmt::format("unused space in the data, {} time(s), first {}", n_gaps, first_gap));
    }
  }

  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_metadata_ = 0;
  Subject subject_;
  std::vector<Place> places_;  // a tensor each
  GgufFile file_;
};

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  return GgufParser(bytes, std::move(name)).parse();
}

}  // namespace kda
