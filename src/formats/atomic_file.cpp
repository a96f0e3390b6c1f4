#include "formats/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kda {

AtomicFile::AtomicFile(std::filesystem::path path, unsigned mode) : path_(std::move(path)) {
  static std::atomic<uint32_t> counter{0};
  temporary_ = path_;
  temporary_ += fmt::format(".tmp-{}-{}", ::getpid(), counter.fetch_add(1));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ < 0) fail_with_errno("cannot create");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
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
}

void AtomicFile::fail_with_errno(const char* what) const {
  const int error = errno;
  fail(ErrorCode::kIo, "{}: {}: {}", path_.string(), what, std::strerror(error));
}

}  // namespace kda
