#include "tokenizer/splitter.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode_tables.h"

// The pattern, one alternative a line; the first that matches at a place wins, with the preferences of a backtracking
// matcher. Han stands for the script.
//
//   1  \p{Han}+
//   2  [^\r\n\p{L}\p{N}]? U* L+ (?i:'s|'t|'re|'ve|'m|'ll|'d)?     U = \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M} but Han
//   3  [^\r\n\p{L}\p{N}]? U+ L* (?i:'s|'t|'re|'ve|'m|'ll|'d)?     L = \p{Ll}\p{Lm}\p{Lo}\p{M} but Han
//   4  \p{N}{1,3}
//   5  [ ]?[^\s\p{L}\p{N}]+[\r\n]*
//   6  \s*[\r\n]+
//   7  \s+(?!\S)
//   8  \s+
//
// Backtracking is resolved by hand: wherever the matcher would give characters back, the place where it would succeed
// is remembered on the way forward.

namespace kda {
namespace {

using unicode::CodePointClass;

using ClassSet = uint32_t;

constexpr ClassSet set_of(auto... classes) { return ((ClassSet{1} << static_cast<int>(classes)) | ...); }
constexpr bool in(CodePointClass value, ClassSet set) { return (set >> static_cast<int>(value) & 1) != 0; }

constexpr ClassSet kHan = set_of(CodePointClass::kHanLetter, CodePointClass::kHanNumber, CodePointClass::kHanOther);
constexpr ClassSet kUpperSide = set_of(CodePointClass::kUpper, CodePointClass::kLetter, CodePointClass::kMark);
constexpr ClassSet kLowerSide = set_of(CodePointClass::kLower, CodePointClass::kLetter, CodePointClass::kMark);
constexpr ClassSet kNumber = set_of(CodePointClass::kNumber, CodePointClass::kHanNumber);
// [^\s\p{L}\p{N}]: marks are no letters here.
constexpr ClassSet kSymbol = set_of(CodePointClass::kOther, CodePointClass::kMark, CodePointClass::kHanOther);
// [^\r\n\p{L}\p{N}]
constexpr ClassSet kPrefix = kSymbol | set_of(CodePointClass::kSpace);
constexpr ClassSet kNewline = set_of(CodePointClass::kNewline);
constexpr ClassSet kWhite = set_of(CodePointClass::kSpace, CodePointClass::kNewline);

constexpr CodePointClass ascii_class(char c) {
  if (c >= 'a' && c <= 'z') return CodePointClass::kLower;
  if (c >= 'A' && c <= 'Z') return CodePointClass::kUpper;
  if (c >= '0' && c <= '9') return CodePointClass::kNumber;
  if (c == '\r' || c == '\n') return CodePointClass::kNewline;
  if (c == ' ' || c == '\t' || c == '\v' || c == '\f') return CodePointClass::kSpace;
  return CodePointClass::kOther;
}

// What the tables say of ASCII, in one look-up.
constexpr std::array<CodePointClass, 128> kAsciiClasses = [] {
  std::array<CodePointClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) classes[c] = ascii_class(static_cast<char>(c));
  return classes;
}();

struct Char {
  CodePointClass cls;
  const char* end;
};

/// Where alternatives 2 and 3, from after the optional first character and without the contraction, end. nullptr: no
/// match. Alternative 3 is only looked at where 2 fails.
struct Word {
  const char* second = nullptr;
  const char* third = nullptr;
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : end_(text.data() + text.size()) {}

  [[nodiscard]] const char* piece_end(const char* begin) const noexcept;

 private:
  [[nodiscard]] Char peek(const char* p) const noexcept {
    if (p == end_) return {CodePointClass::kEnd, p};
    const auto byte = static_cast<uint8_t>(*p);
    if (byte < 0x80) return {kAsciiClasses[byte], p + 1};
    return peek_long(p);
  }

  [[nodiscard]] const char* skip(const char* p, ClassSet set) const noexcept {
    for (;;) {
      const Char c = peek(p);
      if (!in(c.cls, set)) return p;
      p = c.end;
    }
  }

  [[nodiscard]] Char peek_long(const char* p) const noexcept;
  [[nodiscard]] Word scan_word(const char* begin) const noexcept;
  [[nodiscard]] const char* skip_contraction(const char* p) const noexcept;
  [[nodiscard]] const char* white_end(const char* begin) const noexcept;

  const char* end_;
};

// A character of two to four bytes, or one byte that begins none (RFC 3629: no overlong forms, no surrogates).
Char Scanner::peek_long(const char* p) const noexcept {
  const auto at = [&](int i) { return uint32_t{static_cast<uint8_t>(p[i])}; };
  const auto continues = [&](int i) { return (at(i) & 0xC0) == 0x80; };
  const ptrdiff_t left = end_ - p;
  const uint32_t lead = at(0);
  if (lead >= 0xC2 && lead <= 0xDF) {
    if (left >= 2 && continues(1)) return {unicode::class_of((lead & 0x1F) << 6 | (at(1) & 0x3F)), p + 2};
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    if (left >= 3 && continues(1) && continues(2)) {
      const uint32_t c = (lead & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
      if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return {unicode::class_of(c), p + 3};
    }
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    if (left >= 4 && continues(1) && continues(2) && continues(3)) {
      const uint32_t c = (lead & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
      if (c >= 0x10000 && c < unicode::kNCodePoints) return {unicode::class_of(c), p + 4};
    }
  }
  return {CodePointClass::kOther, p + 1};
}

Word Scanner::scan_word(const char* begin) const noexcept {
  const char* p = begin;
  const char* after_caseless = nullptr;  // behind the last character that L+ could begin with if U* gives it back
  Char c = peek(p);
  for (; in(c.cls, kUpperSide); c = peek(p)) {
    p = c.end;
    if (c.cls != CodePointClass::kUpper) after_caseless = p;
  }
  if (c.cls == CodePointClass::kLower) return {.second = skip(c.end, kLowerSide)};
  // No lower-case letter follows. U* gives back until L+ finds its one character; what stands behind that is upper
  // case.
  if (after_caseless != nullptr) return {.second = after_caseless};
  return {.third = p != begin ? p : nullptr};
}

const char* Scanner::skip_contraction(const char* p) const noexcept {
  if (end_ - p < 2 || *p != '\'') return p;
  const auto folded = [&](int i) { return end_ - p > i ? p[i] | 0x20 : 0; };  // of use for ASCII letters only
  switch (folded(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return p + 2;
    case 'r':
    case 'v':
      return folded(2) == 'e' ? p + 3 : p;
    case 'l':
      return folded(2) == 'l' ? p + 3 : p;
    default:
      break;
  }
  // Simple case folding takes U+017F, the long s, for an s.
  return std::string_view(p, static_cast<size_t>(end_ - p)).starts_with("'\xC5\xBF") ? p + 3 : p;
}

// Alternatives 6 to 8, from a character of white space.
const char* Scanner::white_end(const char* begin) const noexcept {
  const char* p = begin;
  const char* last = begin;             // where the last character of the run begins
  const char* after_newline = nullptr;  // behind the last newline of the run
  for (Char c = peek(p); in(c.cls, kWhite); c = peek(p)) {
    last = p;
    p = c.end;
    if (c.cls == CodePointClass::kNewline) after_newline = p;
  }
  if (after_newline != nullptr) return after_newline;
  // Before more text, \s+(?!\S) gives back one character, if there is another.
  return p == end_ || last == begin ? p : last;
}

const char* Scanner::piece_end(const char* begin) const noexcept {
  const Char first = peek(begin);
  if (in(first.cls, kHan)) return skip(first.end, kHan);
  if (in(first.cls, kNumber)) {
    const char* p = first.end;
    for (int i = 1; i < 3; ++i) {
      const Char c = peek(p);
      if (!in(c.cls, kNumber)) break;
      p = c.end;
    }
    return p;
  }

  Word word = in(first.cls, kPrefix) ? scan_word(first.end) : Word{};
  // Alternative 3 behind a prefix cannot come before alternative 2 without one: the only prefix among these is a mark,
  // and with a mark alternative 2 matches.
  if (word.second == nullptr && in(first.cls, kUpperSide | kLowerSide)) word = scan_word(begin);
  const char* word_end = word.second != nullptr ? word.second : word.third;
  if (word_end != nullptr) return skip_contraction(word_end);

  const char* symbols = *begin == ' ' ? first.end : begin;
  const char* symbols_end = skip(symbols, kSymbol);
  if (symbols_end != symbols) return skip(symbols_end, kNewline);
  return white_end(begin);
}

}  // namespace

size_t piece_end(std::string_view text, size_t begin) noexcept {
  return static_cast<size_t>(Scanner(text).piece_end(text.data() + begin) - text.data());
}

}  // namespace kda
