#include "cli/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/terminal.h"
#include "formats/atomic_file.h"
#include "formats/json.h"

namespace kda::cli {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr size_t kMaxHistoryBytes = size_t{64} << 20;
constexpr size_t kMaxEntryBytes = 32768;  // longer ones are kept for this session only

/// Appends what is there; false at the end of the input.
bool read_some(std::string& out) {
  char bytes[65536];
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) {
      if (interrupted()) fail(ErrorCode::kInterrupted, "interrupted");
      continue;
    }
    if (n < 0) fail(ErrorCode::kIo, "standard input cannot be read: {}", std::strerror(errno));
    out.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }
}

/// 0, or the error number.
int write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

/// A history entry on one line: "\n" and "\\" stand for a line break and a backslash.
std::string escape_entry(std::string_view entry) {
  std::string out;
  for (const char c : entry) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + '\n';
}

std::string unescape_entry(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
      out += line[i] == 'n' ? '\n' : line[i];
    } else {
      out += line[i];
    }
  }
  return out;
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string read_input(size_t max_bytes) {
  std::string out;
  while (read_some(out)) {
    if (out.size() > max_bytes) fail(ErrorCode::kLimit, "standard input has more than {} bytes", max_bytes);
  }
  return out;
}

bool InputLines::next(std::string& line) {
  for (size_t searched = at_;;) {
    const size_t end = buffered_.find('\n', searched);
    if (end != std::string::npos) {
      line = buffered_.substr(at_, end - at_);
      at_ = end + 1;
      return true;
    }
    if (ended_) break;
    searched = buffered_.size() - at_;
    buffered_.erase(0, std::exchange(at_, 0));
    if (buffered_.size() > kMaxLineBytes) {
      fail(ErrorCode::kLimit, "standard input has a line of more than {} bytes", kMaxLineBytes);
    }
    ended_ = !read_some(buffered_);
  }
  if (at_ == buffered_.size()) return false;
  line = buffered_.substr(std::exchange(at_, buffered_.size()));
  return true;
}

fs::path user_path(std::string_view typed) {
  if (typed == "~" || typed.starts_with("~/")) {
    const std::string home = environment("HOME");
    if (!home.empty()) return fs::path(home + std::string(typed.substr(1)));
  }
  return fs::path(typed);
}

void write_private_file(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path, 0600);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

fs::path state_folder() {
  const std::string state = environment("XDG_STATE_HOME");
  if (state.starts_with('/')) return fs::path(state) / "kda";
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".local" / "state" / "kda";
}

History::History(fs::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code ignored;
  if (fs::create_directories(path_.parent_path(), ignored)) {
    fs::permissions(path_.parent_path(), fs::perms::owner_all, ignored);
  }
  std::string text;
  try {
    text = read_text_file(path_, kMaxHistoryBytes);
  } catch (const Error&) {
    return;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) entries_.push_back(unescape_entry(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  if (entries_.size() <= kMaxEntries) return;
  entries_.erase(entries_.begin(), entries_.end() - static_cast<std::ptrdiff_t>(kMaxEntries));
  text.clear();
  for (const std::string& entry : entries_) text += escape_entry(entry);
  try {
    write_private_file(path_, text);
  } catch (const Error&) {
    return;  // stays long; the next start tries again
  }
}

void History::add(const std::string& entry) {
  if (entry.find_first_not_of(" \t\n") == std::string::npos) return;
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (path_.empty() || entry.size() > kMaxEntryBytes) return;
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  static_cast<void>(fchmod(fd, 0600));
  static_cast<void>(write_all(fd, escape_entry(entry)));
  close(fd);
}

}  // namespace kda::cli
