#include "convert/gguf_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "convert/disk_space.h"
#include "formats/gguf_types.h"
#include "formats/json.h"

namespace kda {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLogBytes = size_t{64} << 20;

[[noreturn]] void fail_with_errno(const fs::path& path, const char* what) {
  const int error = errno;
  fail(ErrorCode::kIo, "{}: {}: {}", path.string(), what, std::strerror(error));
}

void refuse_odd_target(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail(ErrorCode::kIo, "{}: cannot be replaced: expected a regular file or a new name, found {}", path.string(),
         fs::is_directory(status) ? "a folder" : "a device or the like");
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {  // a cut line is no line
    out.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// Reads what was written, tells how far it is and can be stopped.
class CheckedRead {
 public:
  CheckedRead(int64_t total, const std::function<bool(int64_t, int64_t)>& progress)
      : total_(total), progress_(progress) {}

  /// Throws Error(kInterrupted).
  uint64_t checksum(std::span<const std::byte> bytes) {
    constexpr size_t kChunk = size_t{4} << 20;
    XxHash64 hash;
    while (!bytes.empty()) {
      const auto chunk = bytes.first(std::min(bytes.size(), kChunk));
      hash.update(chunk);
      bytes = bytes.subspan(chunk.size());
      done_ += static_cast<int64_t>(chunk.size());
      if (!progress_(done_, total_)) fail(ErrorCode::kInterrupted, "interrupted");
    }
    return hash.digest();
  }

 private:
  int64_t done_ = 0;
  int64_t total_;
  const std::function<bool(int64_t, int64_t)>& progress_;
};

}  // namespace

GgufOutput::GgufOutput(std::vector<GgufOutputPart> parts, const Options& options) : parts_(std::move(parts)) {
  KDA_CHECK(!parts_.empty());
  int64_t needed = 0;
  for (const GgufOutputPart& part : parts_) {
    refuse_odd_target(part.path);
    heads_.push_back(part.head.head());
    needed += tensor_end(heads_.size() - 1, part.tensor_bytes.size());
  }
  lock();
  const std::string first_line = first_log_line(options.identity);
  size_t n_whole = 0;
  try {
    if (options.resume) n_whole = find_resumable(first_line, options.progress);
  } catch (...) {
    ::close(std::exchange(log_fd_, -1));
    throw;
  }
  n_resumed_ = n_whole;

  size_t left = n_whole;
  while (part_ + 1 < parts_.size() && left >= parts_[part_].tensor_bytes.size()) {
    left -= parts_[part_++].tensor_bytes.size();
    needed -= tensor_end(part_ - 1, parts_[part_ - 1].tensor_bytes.size());
  }
  tensor_ = left;
  const int64_t keep = n_whole == 0 ? 0 : tensor_end(part_, tensor_);
  std::error_code ignored;
  bool ours = fs::file_size(log_path(), ignored) == 0;  // nothing of an earlier run would be lost
  try {
    check_disk_space(parts_.front().path.parent_path(), needed - keep, parts_.front().path.string());
    if (n_whole == 0) {
      ours = true;
      if (::ftruncate(log_fd_, 0) != 0) fail_with_errno(log_path(), "cannot write");
      append(log_fd_, std::as_bytes(std::span(first_line)), log_path());
    }
    start_part(part_, keep);
  } catch (...) {
    if (ours) discard();
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    if (log_fd_ >= 0) ::close(std::exchange(log_fd_, -1));
    throw;
  }
  open_ = true;
}

GgufOutput::~GgufOutput() {
  if (!open_) return;
  if (!can_resume()) {
    discard();
    return;
  }
  if (fd_ >= 0) ::close(fd_);
  ::close(log_fd_);
}

fs::path GgufOutput::partial(size_t part) const {
  fs::path path = parts_[part].path;
  path += ".partial";
  return path;
}

fs::path GgufOutput::log_path() const {
  fs::path path = partial(0);
  path += ".log";
  return path;
}

std::string GgufOutput::first_log_line(const std::string& identity) const {
  XxHash64 hash;
  for (const auto& head : heads_) hash.update(head);
  hash.update(std::as_bytes(std::span(identity)));
  return fmt::format("kda partial file 1 {:016x}\n", hash.digest());
}

int64_t GgufOutput::tensor_end(size_t part, size_t tensor) const {
  const uint32_t alignment = parts_[part].head.alignment();
  uint64_t end = heads_[part].size();
  for (size_t i = 0; i < tensor; ++i) {
    end += round_up(static_cast<uint64_t>(parts_[part].tensor_bytes[i]), alignment);
  }
  return static_cast<int64_t>(end);
}

void GgufOutput::lock() {
  const fs::path path = log_path();
  log_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log_fd_ < 0) {
    const int error = errno;
    fail(ErrorCode::kIo, "{}: cannot create: {}", parts_.front().path.string(), std::strerror(error));
  }
  if (::flock(log_fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(std::exchange(log_fd_, -1));
  fail(ErrorCode::kIo, "{}: another run is writing this file", parts_.front().path.string());
}

int64_t GgufOutput::total_bytes() const noexcept {
  int64_t total = 0;
  for (const GgufOutputPart& part : parts_) {
    for (const int64_t size : part.tensor_bytes) total += size;
  }
  return total;
}

size_t GgufOutput::find_resumable(const std::string& first_line,
                                  const std::function<bool(int64_t, int64_t)>& progress) {
  const std::string log = read_text_file(log_path(), kMaxLogBytes);
  if (log.empty()) return 0;
  const std::vector<std::string_view> lines = lines_of(log);
  if (lines.empty() || lines.front() != std::string_view(first_line).substr(0, first_line.size() - 1)) {
    fail(ErrorCode::kUsage,
         "{}: --resume: the unfinished file was begun with other input or options; start again without --resume",
         partial(0).string());
  }
  CheckedRead read(total_bytes(), progress);
  size_t n = 0;
  size_t log_bytes = first_line.size();
  for (size_t part = 0; part < parts_.size(); ++part) {
    const std::vector<int64_t>& sizes = parts_[part].tensor_bytes;
    std::error_code error;
    const auto file_size = fs::file_size(partial(part), error);
    if (error || file_size < heads_[part].size()) break;
    const MappedFile file(partial(part));
    const std::span<const std::byte> bytes = file.bytes();
    if (!std::equal(heads_[part].begin(), heads_[part].end(), bytes.begin())) break;
    size_t i = 0;
    for (; i < sizes.size() && n + 1 < lines.size(); ++i) {
      const std::string_view line = lines[n + 1];
      uint64_t expected = 0;
      const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), expected, 16);
      const auto begin = static_cast<size_t>(tensor_end(part, i));
      const auto whole = static_cast<size_t>(tensor_end(part, i + 1));
      if (problem != std::errc() || end != line.data() + line.size() || bytes.size() < whole ||
          read.checksum(bytes.subspan(begin, static_cast<size_t>(sizes[i]))) != expected) {
        break;
      }
      checksums_.push_back(expected);
      ++n;
      log_bytes += line.size() + 1;
    }
    if (i < sizes.size()) break;
  }
  if (n > 0 && ::ftruncate(log_fd_, static_cast<off_t>(log_bytes)) != 0) fail_with_errno(log_path(), "cannot write");
  return n;
}

void GgufOutput::start_part(size_t part, int64_t keep_bytes) {
  part_ = part;
  const fs::path path = partial(part);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_with_errno(path, "cannot create");
  if (::ftruncate(fd_, keep_bytes) != 0) fail_with_errno(path, "cannot write");
  if (keep_bytes == 0) append(fd_, heads_[part], path);
}

void GgufOutput::finish_part() {
  if (::fsync(fd_) != 0) fail_with_errno(partial(part_), "cannot write");
  // What is read back by check() shall come from the disk.
  static_cast<void>(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED));
  ::close(std::exchange(fd_, -1));
}

void GgufOutput::append(int fd, std::span<const std::byte> bytes, const fs::path& path) const {
  while (!bytes.empty()) {
    constexpr size_t kMaxChunk = size_t{1} << 30;  // Linux writes less than 2 GiB a call
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kMaxChunk));
    if (n < 0) {
      if (errno == EINTR) continue;
      fail_with_errno(path, "cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void GgufOutput::write(std::span<const std::byte> bytes) {
  append(fd_, bytes, partial(part_));
  hash_.update(bytes);
  written_ += static_cast<int64_t>(bytes.size());
}

void GgufOutput::end_tensor() {
  const std::vector<int64_t>& sizes = parts_[part_].tensor_bytes;
  KDA_CHECK(tensor_ < sizes.size() && written_ == sizes[tensor_]);
  const std::vector<std::byte> padding(round_up(static_cast<uint64_t>(written_), parts_[part_].head.alignment()) -
                                       static_cast<uint64_t>(written_));
  append(fd_, padding, partial(part_));
  checksums_.push_back(hash_.digest());
  const std::string line = fmt::format("{:016x}\n", checksums_.back());
  append(log_fd_, std::as_bytes(std::span(line)), log_path());
  hash_ = {};
  written_ = 0;
  ++tensor_;
  while (tensor_ == parts_[part_].tensor_bytes.size() && part_ + 1 < parts_.size()) {
    finish_part();
    tensor_ = 0;
    start_part(part_ + 1, 0);
  }
}

void GgufOutput::check(const std::function<bool(int64_t, int64_t)>& progress) {
  if (fd_ >= 0) finish_part();
  CheckedRead read(total_bytes(), progress);
  size_t n = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const MappedFile file(partial(part));
    const GgufFile parsed = GgufFile::parse(file.bytes(), partial(part).string());
    for (const GgufTensor& tensor : parsed.tensors()) {
      if (n >= checksums_.size() || read.checksum(tensor.bytes) != checksums_[n++]) {
        fail(ErrorCode::kIo, "{}: tensor {} read back differs from what was written, expected the same checksum",
             partial(part).string(), tensor.name);
      }
    }
  }
  KDA_CHECK(n == checksums_.size());
}

void GgufOutput::commit() {
  if (fd_ >= 0) finish_part();
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (::rename(partial(part).c_str(), parts_[part].path.c_str()) != 0) {
      fail_with_errno(parts_[part].path, "cannot rename the finished file");
    }
  }
  ::unlink(log_path().c_str());
  ::close(std::exchange(log_fd_, -1));
  open_ = false;
}

void GgufOutput::discard() noexcept {
  open_ = false;
  std::error_code ignored;
  for (size_t part = 0; part < parts_.size(); ++part) fs::remove(partial(part), ignored);
  fs::remove(log_path(), ignored);
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (log_fd_ >= 0) ::close(std::exchange(log_fd_, -1));
}

}  // namespace kda
