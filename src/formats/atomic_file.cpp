#include "formats/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace kda {

namespace {

// Names of temporary files, where a signal handler can find them. A writer that finds no free slot goes without.
constexpr int kSlots = 8;
constexpr size_t kSlotBytes = 4096;  // PATH_MAX
char unfinished[kSlots][kSlotBytes];
std::atomic<bool> slot_taken[kSlots];
std::atomic<bool> slot_named[kSlots];

int take_slot(const std::string& name) {
  if (name.size() >= kSlotBytes) return -1;
  for (int i = 0; i < kSlots; ++i) {
    if (slot_taken[i].exchange(true)) continue;
    std::memcpy(unfinished[i], name.c_str(), name.size() + 1);
    slot_named[i].store(true);
    return i;
  }
  return -1;
}

void leave_slot(int slot) {
  if (slot < 0) return;
  slot_named[slot].store(false);
  slot_taken[slot].store(false);
}

}  // namespace

void remove_unfinished_files() noexcept {
  for (int i = 0; i < kSlots; ++i) {
    if (slot_named[i].load()) ::unlink(unfinished[i]);
  }
}

AtomicFile::AtomicFile(std::filesystem::path path, unsigned mode) : path_(std::move(path)) {
  static std::atomic<uint32_t> counter{0};
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) {
    const std::filesystem::path target = std::filesystem::weakly_canonical(path_, ignored);
    if (!ignored) path_ = target;
  }
  const std::filesystem::file_status status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(ErrorCode::kIo, "{}: cannot be replaced: expected a regular file or a new name, found {}", path_.string(),
         std::filesystem::is_directory(status) ? "a folder" : "a device or the like");
  }
  temporary_ = path_;
  temporary_ += fmt::format(".tmp-{}-{}", ::getpid(), counter.fetch_add(1));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ < 0) fail_with_errno("cannot create");
  slot_ = take_slot(temporary_.string());
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  leave_slot(slot_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    constexpr size_t kMaxChunk = size_t{1} << 30;  // Linux writes less than 2 GiB a call
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxChunk));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_with_errno("cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_with_errno("cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("cannot rename the finished file");
  ::close(std::exchange(fd_, -1));
  leave_slot(std::exchange(slot_, -1));
}

void AtomicFile::fail_with_errno(const char* what) const {
  const int error = errno;
  fail(ErrorCode::kIo, "{}: {}: {}", path_.string(), what, std::strerror(error));
}

}  // namespace kda
