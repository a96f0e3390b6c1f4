// A file mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace kda {

/// Read-only mapping of a whole regular file. Movable. Views into bytes() must not outlive it.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error(kNotFound | kIo | kFormat): missing, unreadable, a folder, empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_bytes_}; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Throws Error(kIo) when the file was written to or truncated since it was mapped (size or modification time
  /// differ).
  void check_unchanged() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  int fd_ = -1;
  int64_t mtime_ns_ = 0;
  std::filesystem::path path_;
};

/// From now on a read past the end of a file that shrank while mapped prints one sentence to stderr and ends the
/// process with status 1 (SIGBUS). before_exit, if any, is called first and must be async-signal-safe. For programs,
/// not for the library: call it once at start.
void install_truncation_guard(void (*before_exit)() noexcept = nullptr) noexcept;

}  // namespace kda
