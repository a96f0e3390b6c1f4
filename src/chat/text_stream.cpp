#include "chat/text_stream.h"

#include <algorithm>
#include <cstdint>

namespace kda {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What a character that begins with a lead byte must look like: Unicode 15, table 3-7.
struct Shape {
  int n_bytes;  // 0: no lead byte
  uint8_t second_low, second_high;
};

Shape shape_of(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// Appends the whole characters of `bytes` to `text`, U+FFFD for every maximal part of a character that cannot be
/// completed, and returns how many bytes at the end may still become a character.
size_t append_valid(std::string_view bytes, std::string& text) {
  size_t i = 0;
  while (i < bytes.size()) {
    const Shape shape = shape_of(static_cast<uint8_t>(bytes[i]));
    size_t n = 1;
    const auto n_wanted = static_cast<size_t>(shape.n_bytes);
    while (n < n_wanted && i + n < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[i + n]);
      const bool good = n == 1 ? byte >= shape.second_low && byte <= shape.second_high : (byte & 0xC0) == 0x80;
      if (!good) break;
      ++n;
    }
    if (n < n_wanted && i + n == bytes.size()) return n;
    text += n == n_wanted ? bytes.substr(i, n) : kReplacement;
    i += n;
  }
  return 0;
}

}  // namespace

void TextStream::Stop::step(char byte) {
  if (matched == text.size()) matched = border[matched - 1];
  while (matched > 0 && text[matched] != byte) matched = border[matched - 1];
  if (text[matched] == byte) ++matched;
}

TextStream::TextStream(const std::vector<std::string>& stop) {
  for (const std::string& raw : stop) {
    if (raw.empty()) continue;
    // Made valid like the text itself, so that a match begins and ends between characters.
    Stop entry;
    if (append_valid(raw, entry.text) > 0) entry.text += kReplacement;
    entry.border.assign(entry.text.size(), 0);
    Stop walker{entry.text, entry.border, 0};
    for (size_t i = 1; i < entry.text.size(); ++i) {
      walker.step(entry.text[i]);
      entry.border[i] = walker.border[i] = walker.matched;
    }
    stops_.push_back(std::move(entry));
  }
}

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  pending_bytes_ += bytes;
  std::string text;
  const size_t n_pending = append_valid(pending_bytes_, text);
  pending_bytes_.erase(0, pending_bytes_.size() - n_pending);
  return show(text);
}

std::string TextStream::finish() {
  std::string shown;
  if (!pending_bytes_.empty() && !stopped_) shown = show(kReplacement);
  pending_bytes_.clear();
  shown += held_;
  held_.clear();
  return shown;
}

/// Runs the stop strings over text and returns what is certain not to be part of one.
std::string TextStream::show(std::string_view text) {
  std::string out = std::move(held_);
  held_.clear();
  for (const char byte : text) {
    out += byte;
    size_t n_stop = 0;
    for (Stop& stop : stops_) {
      stop.step(byte);
      if (stop.matched == stop.text.size()) n_stop = std::max(n_stop, stop.matched);
    }
    if (n_stop > 0) {
      stopped_ = true;
      pending_bytes_.clear();
      out.resize(out.size() - n_stop);
      return out;
    }
  }
  size_t n_held = 0;
  for (const Stop& stop : stops_) n_held = std::max(n_held, stop.matched);
  held_ = out.substr(out.size() - n_held);
  out.resize(out.size() - n_held);
  return out;
}

}  // namespace kda
