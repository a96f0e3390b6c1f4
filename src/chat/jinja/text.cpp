#include "chat/jinja/text.h"

#include <algorithm>

namespace kda::jinja {

Text::Text(std::string bytes, bool from_template) : bytes_(std::move(bytes)) { extend_run(from_template); }

/// Gives the bytes after the last run an origin.
void Text::extend_run(bool from_template) {
  const size_t begin = runs_.empty() ? 0 : runs_.back().end;
  if (bytes_.size() == begin) return;
  if (!runs_.empty() && runs_.back().from_template == from_template)
    runs_.back().end = bytes_.size();
  else
    runs_.push_back({bytes_.size(), from_template});
}

void Text::append(std::string_view bytes, bool from_template) {
  bytes_ += bytes;
  extend_run(from_template);
}

void Text::append_range(const Text& other, size_t pos, size_t n) {
  pos = std::min(pos, other.size());
  const size_t end = pos + std::min(n, other.size() - pos);
  auto run =
      std::upper_bound(other.runs_.begin(), other.runs_.end(), pos, [](size_t at, const Run& r) { return at < r.end; });
  for (; pos < end; ++run) {
    const size_t stop = std::min(run->end, end);
    append(std::string_view(other.bytes_).substr(pos, stop - pos), run->from_template);
    pos = stop;
  }
}

Text Text::substr(size_t pos, size_t n) const {
  Text result;
  result.append_range(*this, pos, n);
  return result;
}

Character character_at(std::string_view text, size_t pos) {
  constexpr char32_t kInvalid = 0xFFFD;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - pos < n) return {kInvalid, 1};
  char32_t code_point = lead & (0x7FU >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {kInvalid, 1};
    code_point = code_point << 6 | (byte(i) & 0x3FU);
  }
  const bool too_long = (n == 3 && code_point < 0x800) || (n == 4 && code_point < 0x10000);
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (too_long || surrogate || code_point > 0x10FFFF) return {kInvalid, 1};
  return {code_point, n};
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); pos += character_at(text, pos).n_bytes) ++count;
  return count;
}

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t leading_spaces(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Character c = character_at(text, pos);
    if (!is_space(c.code_point)) break;
    pos += c.n_bytes;
  }
  return pos;
}

size_t trailing_spaces(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const Character c = character_at(text.substr(0, end), begin);
    if (begin + c.n_bytes != end || !is_space(c.code_point)) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace kda::jinja
