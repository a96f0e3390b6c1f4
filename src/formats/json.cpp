#include "formats/json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/file_kind.h"

namespace kda {

namespace {

// A value takes up to a hundred bytes of memory for two bytes of text. The largest real file, a tokenizer.json with its
// merges, has less than half as many.
constexpr size_t kMaxJsonValues = 2'000'000;

/// Reads characters for the parser and counts them, since the parser tells its handlers no positions.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

/// Builds the value, and refuses depth and duplicate keys on the way.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& subject, int max_depth)
      : text_(text), at_(text.data()), subject_(subject), max_depth_(max_depth) {}

  Json build() {
    const CountingIterator first(text_.data(), &at_);
    const CountingIterator last(text_.data() + text_.size(), &at_);
    Json::sax_parse(first, last, this);
    return std::move(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) {
      fail(ErrorCode::kFormat, "{}: byte {}: key {} is there twice in one object, expected once", subject_, position(),
           quote(value));
    }
    member_ = &(*open_.back())[value];
    return true;
  }

  bool parse_error(size_t byte, const std::string& last_token, const Json::exception& error) override {
    if (const FileKind kind = find_file_kind(std::as_bytes(std::span(text_))); kind != FileKind::kOther) {
      fail(ErrorCode::kFormat, "{}: expected JSON, found {}", subject_, describe(kind));
    }
    // "[json.exception.parse_error.101] parse error at ...: syntax error ...; last read: '...'"
    std::string_view what = error.what();
    if (const size_t end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
    if (const size_t end = what.find(": "); end != std::string_view::npos && what.starts_with("parse error at")) {
      what.remove_prefix(end + 2);
    }
    constexpr size_t kMaxLength = 200;  // the text in it may be as long as the file
    what = what.substr(0, std::min(what.find("; last read: "), kMaxLength));
    fail(ErrorCode::kFormat, "{}: byte {}: expected JSON, found {}: {}", subject_, byte, quote(last_token), what);
  }

 private:
  [[nodiscard]] std::ptrdiff_t position() const { return at_ - text_.data(); }

  Json* place(Json&& value) {
    if (++n_values_ > kMaxJsonValues) {
      fail(ErrorCode::kLimit, "{}: byte {}: expected at most {} values, found more", subject_, position(),
           kMaxJsonValues);
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }

  bool open(Json&& value) {
    if (open_.size() >= static_cast<size_t>(max_depth_)) {
      fail(ErrorCode::kFormat, "{}: byte {}: nests deeper than expected, {} levels at most", subject_, position(),
           max_depth_);
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const char* at_;  // behind the last character that the parser took
  const std::string& subject_;
  int max_depth_;
  size_t n_values_ = 0;
  Json root_;
  std::vector<Json*> open_;  // objects and arrays, outermost first
  Json* member_ = nullptr;   // where the value of the last key goes
};

/// Closes on every way out.
struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Json parse_json(std::string_view text, const std::string& subject, int max_depth) {
  return Builder(text, subject, max_depth).build();
}

Json read_json_file(const std::filesystem::path& path, size_t max_bytes) {
  return parse_json(read_text_file(path, max_bytes), path.string());
}

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  // Non-blocking, so that a pipe in place of the file is refused below instead of waited for.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  const auto fail_with_errno = [&] {
    const int error = errno;
    fail(error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot read: {}",
         path.string(), std::strerror(error));
  };
  if (file.fd < 0) fail_with_errno();
  struct stat st {};
  if (::fstat(file.fd, &st) != 0) fail_with_errno();
  if (!S_ISREG(st.st_mode)) fail(ErrorCode::kIo, "{}: cannot read: expected a regular file", path.string());
  if (static_cast<uint64_t>(st.st_size) > max_bytes) {
    fail(ErrorCode::kLimit, "{}: expected at most {} bytes, found {}", path.string(), max_bytes, st.st_size);
  }
  std::string text(static_cast<size_t>(st.st_size), '\0');
  size_t n_read = 0;
  while (n_read < text.size()) {
    const ssize_t n = ::read(file.fd, text.data() + n_read, text.size() - n_read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno();
    if (n == 0) break;
    n_read += static_cast<size_t>(n);
  }
  text.resize(n_read);
  return text;
}

}  // namespace kda
