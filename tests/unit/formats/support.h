// Files made by hand, byte for byte, for the tests of the readers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kda::test {

/// Bytes in the making. A std::string, so that literals can be used.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::string_view text) : bytes_(text) {}  // implicit, as most bytes in the tests are text

  template <typename T>
  Bytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& u8(uint8_t value) { return number(value); }
  Bytes& u16(uint16_t value) { return number(value); }
  Bytes& u32(uint32_t value) { return number(value); }
  Bytes& u64(uint64_t value) { return number(value); }
  Bytes& f32(float value) { return number(value); }
  /// A GGUF string: length, then the bytes.
  Bytes& str(std::string_view text) {
    u64(text.size());
    return raw(text);
  }
  Bytes& raw(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Bytes& raw(const Bytes& other) { return raw(other.bytes_); }
  Bytes& zeros(size_t n) {
    bytes_.append(n, '\0');
    return *this;
  }
  Bytes& pad_to(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_ += '\0';
    return *this;
  }

  [[nodiscard]] const std::string& text() const { return bytes_; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A GGUF file whose every field can be set wrong.
struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors;   // the true number by default
  std::optional<uint64_t> n_metadata;  // the same
  std::vector<Bytes> metadata;
  std::vector<Bytes> tensors;
  size_t alignment = 32;
  Bytes data;

  RawGguf& add(std::string_view key, uint32_t type, const Bytes& value) {
    metadata.push_back(Bytes().str(key).u32(type).raw(value));
    return *this;
  }
  /// With room for `n_data` bytes of data that follow the tensors before it.
  RawGguf& add_tensor(std::string_view name, std::initializer_list<uint64_t> ne, uint32_t type, uint64_t offset,
                      size_t n_data) {
    Bytes info = Bytes().str(name).u32(static_cast<uint32_t>(ne.size()));
    for (const uint64_t n : ne) info.u64(n);
    tensors.push_back(info.u32(type).u64(offset));
    data.zeros(n_data);
    return *this;
  }

  [[nodiscard]] Bytes build() const {
    Bytes out(magic);
    out.u32(version).u64(n_tensors.value_or(tensors.size())).u64(n_metadata.value_or(metadata.size()));
    for (const Bytes& entry : metadata) out.raw(entry);
    for (const Bytes& info : tensors) out.raw(info);
    if (!tensors.empty()) out.pad_to(alignment);
    return out.raw(data);
  }
};

/// Calls f, which must throw Error with this code and a message that holds every one of the words.
template <typename F>
void expect_error(ErrorCode code, std::initializer_list<std::string_view> words, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string_view word : words) {
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos)
          << "expected '" << word << "' in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "expected an error";
}

/// An empty folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            ("kda-formats-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes a file, with the folders above it.
  std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
    const auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace kda::test
