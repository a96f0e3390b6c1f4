#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kda {

namespace {

int64_t mtime_ns(const struct stat& st) { return int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec; }

void (*call_before_exit)() noexcept = nullptr;

extern "C" void on_bus_error(int) {
  if (call_before_exit != nullptr) call_before_exit();
  static constexpr char kText[] =
      "kda: error: the model file was truncated or could not be read while in use; put the whole file back and start "
      "again\n";
  const ssize_t ignored = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  (void)ignored;
  ::_exit(1);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Non-blocking, so that a pipe in place of the file is refused below instead of waited for.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) {
    const int error = errno;
    fail(error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot open: {}",
         path.string(), std::strerror(error));
  }
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    ::close(std::exchange(fd_, -1));
    fail(code, "{}: {}", path.string(), why);
  };
  struct stat st {};
  if (::fstat(fd_, &st) != 0) refuse(ErrorCode::kIo, std::strerror(errno));
  if (S_ISDIR(st.st_mode)) refuse(ErrorCode::kFormat, "is a folder, expected a file");
  if (!S_ISREG(st.st_mode)) refuse(ErrorCode::kFormat, "is not a regular file");
  if (st.st_size == 0) refuse(ErrorCode::kFormat, "is empty");
  void* p = ::mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_SHARED, fd_, 0);
  if (p == MAP_FAILED) refuse(ErrorCode::kIo, std::string("cannot map: ") + std::strerror(errno));
  data_ = static_cast<const std::byte*>(p);
  size_bytes_ = static_cast<size_t>(st.st_size);
  mtime_ns_ = mtime_ns(st);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
  if (fd_ >= 0) ::close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      mtime_ns_(other.mtime_ns_),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(fd_, other.fd_);
  std::swap(mtime_ns_, other.mtime_ns_);
  std::swap(path_, other.path_);
  return *this;
}

void MappedFile::check_unchanged() const {
  struct stat st {};
  if (::fstat(fd_, &st) != 0 || static_cast<size_t>(st.st_size) != size_bytes_ || mtime_ns(st) != mtime_ns_) {
    fail(ErrorCode::kIo, "{}: the file changed while it was in use, expected {} bytes as opened, found {}; start again",
         path_.string(), size_bytes_, static_cast<int64_t>(st.st_size));
  }
}

void install_truncation_guard(void (*before_exit)() noexcept) noexcept {
  call_before_exit = before_exit;
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace kda
