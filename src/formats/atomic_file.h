// A file that appears under its name only when it is whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kda {

/// Writes to a temporary name in the same folder; commit() gives it the final name, and a writer that is destroyed
/// before that removes it. A link is followed: what it leads to is replaced.
class AtomicFile {
 public:
  /// mode: permissions, cut by the umask. Throws Error(kIo) when the temporary file cannot be made or the name belongs
  /// to something that is not a regular file (a folder, a device).
  explicit AtomicFile(std::filesystem::path path, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Error(kIo).
  void write(std::span<const std::byte> bytes);
  /// Flushes to the device and renames over whatever had the name. Throws Error(kIo). Nothing may follow.
  void commit();

 private:
  [[noreturn]] void fail_with_errno(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  int slot_ = -1;  // in the list that remove_unfinished_files() reads
};

/// Removes the temporary files of all writers at work. Async-signal-safe: for handlers that end the process.
void remove_unfinished_files() noexcept;

}  // namespace kda
