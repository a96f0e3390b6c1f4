#include "cli/text.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <wchar.h>

#include <clocale>

namespace kda::cli {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

}  // namespace

void use_utf8_locale() noexcept {
  const char* found = std::setlocale(LC_CTYPE, "");
  if (found != nullptr && std::string_view(nl_langinfo(CODESET)) == "UTF-8") return;
  std::setlocale(LC_CTYPE, "C.UTF-8");
}

CodePoint code_point_at(std::string_view text, size_t at) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const CodePoint invalid{kReplacement, 1, false};
  if (lead < 0xC2 || lead > 0xF4 || at + size > text.size()) return invalid;
  char32_t value = lead & (0x7FU >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return invalid;
    value = (value << 6) | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (size == 3 && value < 0x800) || (size == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (overlong || surrogate || value > 0x10FFFF) return invalid;
  return {value, size, true};
}

int column_width(char32_t c) noexcept {
  if (c < 0x300) return is_control(c) ? 0 : 1;
  const int width = wcwidth(static_cast<wchar_t>(c));
  return width < 0 ? 1 : width;  // unassigned here, but a terminal shows something
}

int column_width(std::string_view text) noexcept {
  int width = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    width += column_width(c.value);
    i += c.size;
  }
  return width;
}

size_t next_character(std::string_view text, size_t at) noexcept {
  if (at >= text.size()) return text.size();
  const CodePoint first = code_point_at(text, at);
  at += first.size;
  if (is_control(first.value)) return at;  // carries no marks
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (c.value < 0x300 || column_width(c.value) != 0) break;
    at += c.size;
  }
  return at;
}

size_t previous_character(std::string_view text, size_t at) noexcept {
  const size_t end = at;
  while (at > 0) {
    const size_t mark = at;
    --at;
    for (int back = 0; back < 3 && at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++back) --at;
    const CodePoint c = code_point_at(text, at);
    if (is_control(c.value)) return mark == end ? at : mark;
    if (c.value < 0x300 || column_width(c.value) != 0) break;
  }
  return at;
}

std::string clean_input(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    if (!c.valid) {
      out += "\xEF\xBF\xBD";
    } else if (c.value == '\r') {
      out += '\n';
      if (i + 1 < bytes.size() && bytes[i + 1] == '\n') ++i;
    } else if (c.value == '\n' || c.value == '\t' || !is_control(c.value)) {
      out += bytes.substr(i, c.size);
    }
    i += c.size;
  }
  return out;
}

std::string terminal_safe(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (c.valid && (c.value == '\n' || c.value == '\t' || !is_control(c.value))) out += text.substr(i, c.size);
    i += c.size;
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (c.valid && !is_control(c.value)) {
      out += text.substr(i, c.size);
    } else {
      for (size_t k = 0; k < c.size; ++k) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[i + k])));
      }
    }
    i += c.size;
  }
  return out;
}

std::string quote(std::string_view bytes) {
  std::string out = "\"";
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    if (!c.valid || (is_control(c.value) && c.value != '\n' && c.value != '\t' && c.value != '\r')) {
      for (size_t k = 0; k < c.size; ++k) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(bytes[i + k])));
      }
    } else if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '"' || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else {
      out += bytes.substr(i, c.size);
    }
    i += c.size;
  }
  return out + '"';
}

bool is_utf8(std::string_view bytes) noexcept {
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    if (!c.valid) return false;
    i += c.size;
  }
  return true;
}

}  // namespace kda::cli
