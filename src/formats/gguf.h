// GGUF files, versions 2 and 3, little-endian: bytes <-> typed tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "quant/tensor_type.h"

namespace kda {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// An array as it lies in the file; checked to be inside it when the file was parsed.
struct GgufArray {
  GgufType element_type = GgufType::kUint8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;  // all elements back to back
};

/// A metadata value. Integers of any width are widened; the strings are views into the file.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> value;
};

struct GgufTensor {
  std::string_view name;
  TensorType type = TensorType::kF32;
  int n_dims = 1;
  int64_t ne[4] = {1, 1, 1, 1};      // fastest first
  std::span<const std::byte> bytes;  // the data

  [[nodiscard]] int64_t n_elements() const noexcept { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

/// One parsed file (one part of a split set). All views live as long as the bytes that were parsed.
class GgufFile {
 public:
  /// Parses and checks everything of ggml-blocks 12.4 (header, metadata, tensor table, offsets against the size).
  /// `name` is used in messages. Throws Error(kFormat | kUnsupported). Never reads outside `bytes`.
  static GgufFile parse(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] uint32_t version() const noexcept { return version_; }
  [[nodiscard]] uint32_t alignment() const noexcept { return alignment_; }
  [[nodiscard]] uint64_t data_offset() const noexcept { return data_offset_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Metadata in file order.
  [[nodiscard]] std::span<const std::pair<std::string_view, GgufValue>> metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::span<const GgufTensor> tensors() const noexcept { return tensors_; }
  /// nullptr when absent.
  [[nodiscard]] const GgufValue* find(std::string_view key) const noexcept;
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view tensor) const noexcept;
  /// Remarks that did not stop the reading: gaps, tensors out of order.
  [[nodiscard]] std::span<const std::string> warnings() const noexcept { return warnings_; }

  // Typed access. A key that is absent gives nullopt; a value of another kind throws Error(kFormat) with key, expected
  // and found. Integers are accepted in any width as long as the value fits.
  [[nodiscard]] std::optional<int64_t> get_int(std::string_view key) const;
  [[nodiscard]] std::optional<double> get_float(std::string_view key) const;
  [[nodiscard]] std::optional<bool> get_bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> get_string(std::string_view key) const;
  /// A scalar counts as an array of one.
  [[nodiscard]] std::optional<std::vector<int64_t>> get_ints(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> get_floats(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const;

 private:
  friend class GgufParser;
  std::string name_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  uint64_t data_offset_ = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  // Ordered, not hashed: names made to collide cannot slow it down.
  std::map<std::string_view, size_t> metadata_index_, tensor_index_;
  std::vector<std::string> warnings_;
};

/// A file or a whole split set, mapped.
class GgufModel {
 public:
  /// Opens `path`; when it is part of a split set (split.count > 1), opens all parts. A part other than the first leads
  /// to the first by name. Throws Error as GgufFile::parse does, and for missing parts, wrong order, double tensors or
  /// a wrong total (ggml-blocks 12.6).
  static GgufModel open(const std::filesystem::path& path);

  /// The part that carries the metadata.
  [[nodiscard]] const GgufFile& main() const noexcept { return parts_.front(); }
  [[nodiscard]] std::span<const GgufFile> parts() const noexcept { return parts_; }
  [[nodiscard]] std::span<const MappedFile> files() const noexcept { return files_; }
  /// Over all parts; nullptr when absent.
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view tensor) const noexcept;

 private:
  std::vector<MappedFile> files_;
  std::vector<GgufFile> parts_;
};

/// Assembles a GGUF file that GgufFile::parse accepts. Metadata and tensors keep the order in which they were added.
/// What would break the format throws Error(kUsage): names that are empty, too long or double, data of another size
/// than the dimensions ask for, an alignment that is not a power of two. One thread at a time.
class GgufWriter {
 public:
  void add_uint32(std::string_view key, uint32_t value);
  void add_uint16(std::string_view key, uint16_t value);
  void add_int32(std::string_view key, int32_t value);
  void add_float32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_int32_array(std::string_view key, std::span<const int32_t> values);
  void add_float32_array(std::string_view key, std::span<const float> values);
  void add_string_array(std::string_view key, std::span<const std::string> values);
  /// A value read from another file, as it is.
  void add_value(std::string_view key, const GgufValue& value);
  /// ne fastest first; bytes are copied when the file is written, so they must live until then.
  void add_tensor(std::string_view name, TensorType type, std::span<const int64_t> ne,
                  std::span<const std::byte> bytes);
  /// A tensor whose bytes the caller writes itself after head(): in the order of declaration, each padded to the
  /// alignment. finish() and write() are not for such files.
  void declare_tensor(std::string_view name, TensorType type, std::span<const int64_t> ne);
  /// Adds general.alignment, as adding a value under that key does. Without it the alignment is 32.
  void set_alignment(uint32_t alignment);
  /// 2 or 3.
  void set_version(uint32_t version);

  [[nodiscard]] uint32_t alignment() const noexcept { return alignment_; }
  /// Everything before the data.
  [[nodiscard]] std::vector<std::byte> head() const;
  /// The file as bytes.
  [[nodiscard]] std::vector<std::byte> finish() const;
  /// Writes to a temporary name beside `path`, then renames. Throws Error(kIo) and leaves no half file.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<int64_t> ne;
    uint64_t size_bytes;
    std::span<const std::byte> bytes;  // empty: declared only
  };
  /// Key and type of a value whose bytes follow.
  void begin_value(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element_type, uint64_t count);

  uint32_t version_ = 3;
  uint32_t alignment_ = 32;
  std::set<std::string, std::less<>> keys_, tensor_names_;
  std::vector<std::byte> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace kda
