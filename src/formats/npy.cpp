// A .npy file: magic "\x93NUMPY", version (major, minor), header length (u16 in version 1, u32 in 2 and 3), the header,
// which is a Python dictionary in text, then the elements.
#include "formats/npy.h"

#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/atomic_file.h"
#include "formats/file_kind.h"
#include "formats/little_endian.h"

namespace kda {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPreludeBytes = 8;  // magic and version
constexpr size_t kAlignment = 64;    // of the data, as NumPy writes it

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads the header: {'descr': '<i4', 'fortran_order': False, 'shape': (3,), }, keys in any order.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header read() {
    Header header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = read_string();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.descr = read_string();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = read_bool();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = read_tuple();
        has_shape = true;
      } else {
        refuse("'descr', 'fortran_order' and 'shape' once each", key);
      }
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_spaces();
    if (!text_.empty()) refuse("nothing behind the dictionary", text_);
    if (!has_descr || !has_order || !has_shape) refuse("'descr', 'fortran_order' and 'shape'", "fewer keys");
    return header;
  }

 private:
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    fail(ErrorCode::kFormat, "npy: {}: header: expected {}, found {}", file_, expected, quote(found.substr(0, 20)));
  }

  void skip_spaces() {
    const size_t n = text_.find_first_not_of(" \t\n");
    text_.remove_prefix(n == std::string_view::npos ? text_.size() : n);
  }

  bool accept(char c) {
    skip_spaces();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool accept_word(std::string_view word) {
    skip_spaces();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse(fmt::format("'{}'", c), text_);
  }

  std::string read_string() {
    skip_spaces();
    const char mark = text_.empty() ? '\0' : text_[0];
    if (mark != '\'' && mark != '"') refuse("a string (types of several fields are not supported)", text_);
    const size_t end = text_.find(mark, 1);
    if (end == std::string_view::npos) refuse("the end of a string", text_);
    std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }

  bool read_bool() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    refuse("True or False", text_);
  }

  std::vector<int64_t> read_tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      out.push_back(read_size());
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return out;
  }

  int64_t read_size() {
    skip_spaces();
    if (text_.empty() || text_[0] < '0' || text_[0] > '9') refuse("a size of 0 or more", text_);
    int64_t value = 0;
    while (!text_.empty() && text_[0] >= '0' && text_[0] <= '9') {
      const int digit = text_[0] - '0';
      if (value > (std::numeric_limits<int64_t>::max() - digit) / 10) refuse("a size below 2^63", text_);
      value = value * 10 + digit;
      text_.remove_prefix(1);
    }
    return value;
  }

  std::string_view text_;
  const std::string& file_;
};

template <typename T>
std::vector<int64_t> widen(std::span<const std::byte> data) {
  std::vector<int64_t> out(data.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) out[i] = load_le<T>(data.data() + i * sizeof(T));
  return out;
}

}  // namespace

std::vector<int64_t> parse_npy_ints(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) {
    fail(ErrorCode::kFormat, "npy: {}: expected a NumPy array file, found {}", name, describe(find_file_kind(bytes)));
  }
  const auto expect_bytes = [&](uint64_t n, std::string_view what) {
    if (n > bytes.size()) {
      fail(ErrorCode::kFormat, "npy: {}: {}: expected {} bytes or more, found {}; the file is cut off", name, what, n,
           bytes.size());
    }
  };
  expect_bytes(kPreludeBytes, "version");
  const int major = std::to_integer<int>(bytes[6]);
  if (major < 1 || major > 3) fail(ErrorCode::kFormat, "npy: {}: version: expected 1 to 3, found {}", name, major);
  const size_t header_begin = kPreludeBytes + (major == 1 ? sizeof(uint16_t) : sizeof(uint32_t));
  expect_bytes(header_begin, "header length");
  const uint64_t header_bytes = major == 1 ? uint64_t{load_le<uint16_t>(bytes.data() + kPreludeBytes)}
                                           : uint64_t{load_le<uint32_t>(bytes.data() + kPreludeBytes)};
  expect_bytes(header_begin + header_bytes, "header");
  const Header header = HeaderReader(text.substr(header_begin, header_bytes), name).read();

  uint64_t size = 0;
  if (header.descr == "<i4" || header.descr == "<u4") size = 4;
  if (header.descr == "<i8") size = 8;
  if (header.descr == "<u2") size = 2;
  if (size == 0) {
    fail(ErrorCode::kFormat, "npy: {}: type: expected int32, int64, uint16 or uint32, little-endian, found {}", name,
         quote(header.descr));
  }
  if (header.fortran_order) fail(ErrorCode::kFormat, "npy: {}: order: expected C order, found Fortran order", name);
  if (header.shape.size() != 1) {
    fail(ErrorCode::kFormat, "npy: {}: shape: expected one dimension, found {}", name, header.shape.size());
  }
  const auto data = bytes.subspan(header_begin + header_bytes);
  const auto n = static_cast<uint64_t>(header.shape[0]);
  if (n > data.size() / size || n * size != data.size()) {
    fail(ErrorCode::kFormat, "npy: {}: data: expected {} elements of {} bytes, found {} bytes{}", name, n, size,
         data.size(), n > data.size() / size ? "; the file is cut off" : "");
  }
  if (header.descr == "<i4") return widen<int32_t>(data);
  if (header.descr == "<u4") return widen<uint32_t>(data);
  if (header.descr == "<u2") return widen<uint16_t>(data);
  return widen<int64_t>(data);
}

std::vector<int64_t> read_npy_ints(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_npy_ints(file.bytes(), path.string());
}

void write_npy_floats(const std::filesystem::path& path, std::span<const float> values,
                      std::span<const int64_t> shape) {
  std::string sizes;
  uint64_t n = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(n, static_cast<uint64_t>(size), &n)) {
      fail(ErrorCode::kUsage, "npy: {}: shape: expected sizes of 0 or more, found {}", path.string(), size);
    }
    sizes += fmt::format("{},", size);
  }
  if (n != values.size()) {
    fail(ErrorCode::kUsage, "npy: {}: shape: expected a product of {}, found {}", path.string(), values.size(), n);
  }
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", sizes);
  constexpr size_t kLengthBytes = sizeof(uint16_t);
  while ((kPreludeBytes + kLengthBytes + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  if (header.size() > std::numeric_limits<uint16_t>::max()) {
    fail(ErrorCode::kUsage, "npy: {}: shape: expected a header below 64 KiB, found {} bytes", path.string(),
         header.size());
  }
  std::string head(kMagic);
  head += '\x01';
  head += '\x00';
  head += static_cast<char>(header.size() & 0xFFU);
  head += static_cast<char>(header.size() >> 8U);
  head += header;
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(head)));
  file.write(std::as_bytes(values));
  file.commit();
}

}  // namespace kda
