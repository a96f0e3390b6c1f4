// The class of a code point, as far as the splitting pattern tells code points apart (Unicode 16).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kda::unicode {

/// Every code point is in exactly one. The values are written into the tables by tools/make_unicode_tables.py.
enum class CodePointClass : uint8_t {
  kOther = 0,  // punctuation, symbols, controls, unassigned
  kUpper,      // Lu, Lt
  kLower,      // Ll
  kLetter,     // Lm, Lo outside the Han script
  kMark,       // M outside the Han script
  kNumber,     // N outside the Han script
  kSpace,      // White_Space but carriage return and line feed
  kNewline,    // carriage return and line feed
  kHanLetter,  // Script=Han, L
  kHanNumber,  // Script=Han, N
  kHanOther,   // Script=Han, neither
  kEnd = 15,   // in no table: what a scanner finds past the end of its text
};

inline constexpr uint32_t kNCodePoints = 0x110000;
inline constexpr uint32_t kBlockSize = 128;

using BlockIndex = std::array<uint8_t, kNCodePoints / kBlockSize>;
extern const BlockIndex kBlockIndex;
extern const uint64_t kBlocks[];

/// code_point < kNCodePoints. Surrogates are kOther.
[[nodiscard]] inline CodePointClass class_of(uint32_t code_point) noexcept {
  const uint32_t place = kBlockIndex[code_point / kBlockSize] * kBlockSize + code_point % kBlockSize;
  return static_cast<CodePointClass>(kBlocks[place / 16] >> (4 * (place % 16)) & 15);
}

}  // namespace kda::unicode
