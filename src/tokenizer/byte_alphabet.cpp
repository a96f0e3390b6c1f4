#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace kda {
namespace {

constexpr int kNOthers = 68;
constexpr int kNCodePoints = 0x100 + kNOthers;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<uint16_t, 256> kCodePoints = [] {
  std::array<uint16_t, 256> code_points{};
  int n_others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    code_points[byte] = static_cast<uint16_t>(stands_for_itself(byte) ? byte : 0x100 + n_others++);
  }
  return code_points;
}();

constexpr std::array<int16_t, kNCodePoints> kBytes = [] {
  std::array<int16_t, kNCodePoints> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCodePoints[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

}  // namespace

std::string encode_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    const uint16_t c = kCodePoints[static_cast<uint8_t>(byte)];
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else {
      text += static_cast<char>(0xC0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return text;
}

std::optional<std::string> decode_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t c = static_cast<uint8_t>(text[i]);
    if (c >= 0x80) {  // All characters past ASCII have two bytes.
      if (c < 0xC2 || c > 0xDF || ++i == text.size()) return std::nullopt;
      const uint32_t low = static_cast<uint8_t>(text[i]);
      if ((low & 0xC0) != 0x80) return std::nullopt;
      c = (c & 0x1F) << 6 | (low & 0x3F);
    }
    if (c >= kBytes.size() || kBytes[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[c]);
  }
  return bytes;
}

}  // namespace kda
