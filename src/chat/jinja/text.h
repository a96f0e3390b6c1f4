// Text that remembers who wrote each part of it: the template or the conversation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kda::jinja {

/// Bytes (UTF-8 as a rule) with their origin. Whatever is cut out or put together keeps the origin of each byte, so
/// that only what a template wrote itself can become a control token. Offsets are in bytes.
class Text {
 public:
  /// Bytes [end of the run before, end) have one origin. Neighbours differ.
  struct Run {
    size_t end;
    bool from_template;
    bool operator==(const Run&) const = default;
  };

  Text() = default;
  Text(std::string bytes, bool from_template);

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::vector<Run>& runs() const noexcept { return runs_; }
  [[nodiscard]] size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

  void append(std::string_view bytes, bool from_template);
  void append(const Text& other) { append_range(other, 0, other.size()); }
  /// Appends other[pos, pos + n), cut at its end.
  void append_range(const Text& other, size_t pos, size_t n);
  [[nodiscard]] Text substr(size_t pos, size_t n = std::string::npos) const;

  /// The same text with every byte replaced by map(byte).
  template <typename Map>
  [[nodiscard]] Text map_bytes(Map map) const {
    Text result = *this;
    for (char& c : result.bytes_) c = map(c);
    return result;
  }

 private:
  void extend_run(bool from_template);

  std::string bytes_;
  std::vector<Run> runs_;
};

/// A character at a place of a text: its code point and length in bytes. A byte that is not part of valid UTF-8 is a
/// character of its own, with code point U+FFFD.
struct Character {
  char32_t code_point;
  size_t n_bytes;
};
[[nodiscard]] Character character_at(std::string_view text, size_t pos);
[[nodiscard]] size_t count_characters(std::string_view text);
void append_utf8(char32_t code_point, std::string& out);

/// What Python's str.isspace calls a space.
[[nodiscard]] bool is_space(char32_t code_point);
/// Bytes of spaces at the beginning and at the end of text.
[[nodiscard]] size_t leading_spaces(std::string_view text);
[[nodiscard]] size_t trailing_spaces(std::string_view text);

}  // namespace kda::jinja
