#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "chat/jinja/text.h"

namespace kda::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_begin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Every kind of line end becomes one newline; the last one of the text is dropped.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), text_(source_) {}

  std::vector<Token> run() {
    while (pos_ < text_.size()) {
      const size_t tag = find_tag();
      if (tag == text_.npos) {
        add(TokenType::kData, std::string(text_.substr(pos_)));
        break;
      }
      const char kind = text_[tag + 1];
      const char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
      const std::string_view data = data_before_tag(text_.substr(pos_, tag - pos_), kind, sign);
      if (!data.empty()) add(TokenType::kData, std::string(data));
      advance(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      if (kind == '#')
        skip_comment();
      else
        read_tag(kind == '%');
      line_starting_ = text_[pos_ - 1] == '\n';
    }
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void add(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  void advance(size_t to) {
    line_ += static_cast<int>(
        std::count(text_.begin() + static_cast<ptrdiff_t>(pos_), text_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    pos_ = to;
  }

  [[nodiscard]] bool at(std::string_view what) const { return text_.substr(pos_, what.size()) == what; }

  size_t find_tag() const {
    for (size_t at = pos_; (at = text_.find('{', at)) != text_.npos; ++at) {
      const char next = at + 1 < text_.size() ? text_[at + 1] : ' ';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return text_.npos;
  }

  /// Text before a tag, without the spaces that the tag takes away.
  std::string_view data_before_tag(std::string_view data, char kind, char sign) const {
    if (sign == '-') return data.substr(0, data.size() - trailing_spaces(data));
    if (sign == '+' || kind == '{') return data;
    const size_t newline = data.rfind('\n');
    const size_t line_begin = newline == data.npos ? 0 : newline + 1;
    const bool blank = leading_spaces(data.substr(line_begin)) == data.size() - line_begin;
    if (blank && (line_begin > 0 || line_starting_)) return data.substr(0, line_begin);
    return data;
  }

  /// Goes past the end of a tag; `-` takes all spaces after it, otherwise a block or comment takes one newline.
  void finish_tag(size_t n_bytes, bool strip, bool trim) {
    advance(pos_ + n_bytes);
    if (strip)
      advance(pos_ + leading_spaces(text_.substr(pos_)));
    else if (trim && at("\n"))
      advance(pos_ + 1);
  }

  void skip_comment() {
    const int begin_line = line_;
    const size_t end = text_.find("#}", pos_);
    if (end == text_.npos) fail_at(begin_line, ErrorCode::kFormat, "a comment has no end, expected #}}");
    const char sign = end > pos_ ? text_[end - 1] : ' ';
    advance(end);
    finish_tag(2, sign == '-', sign != '+');
  }

  void read_tag(bool block) {
    const int begin_line = line_;
    add(block ? TokenType::kBlockBegin : TokenType::kVariableBegin, "");
    const std::string_view end = block ? "%}" : "}}";
    std::string open;  // brackets that wait for their partner
    bool first = true;
    while (true) {
      advance(pos_ + leading_spaces(text_.substr(pos_)));
      if (pos_ >= text_.size()) fail_at(begin_line, ErrorCode::kFormat, "a tag has no end, expected {}", end);
      if (open.empty()) {
        const bool strip = text_[pos_] == '-' && text_.substr(pos_ + 1, 2) == end;
        const bool keep = block && text_[pos_] == '+' && text_.substr(pos_ + 1, 2) == end;
        if (strip || keep || at(end)) {
          add(block ? TokenType::kBlockEnd : TokenType::kVariableEnd, "");
          finish_tag(strip || keep ? 3 : 2, strip, block && !keep);
          return;
        }
      }
      read_token(open);
      if (first && block && tokens_.back().type == TokenType::kName && tokens_.back().text == "raw")
        fail_at(line_, ErrorCode::kUnsupported, "the tag 'raw' is not supported");
      first = false;
    }
  }

  void read_token(std::string& open) {
    const char c = text_[pos_];
    if (is_name_begin(c)) {
      size_t end = pos_ + 1;
      while (end < text_.size() && (is_name_begin(text_[end]) || is_digit(text_[end]))) ++end;
      add(TokenType::kName, std::string(text_.substr(pos_, end - pos_)));
      pos_ = end;
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '"' || c == '\'') {
      read_string(c);
    } else {
      read_operator(open);
    }
  }

  void read_number() {
    std::string digits;
    const auto take_digits = [&] {
      while (pos_ < text_.size() && (is_digit(text_[pos_]) || text_[pos_] == '_')) {
        if (text_[pos_] != '_') digits += text_[pos_];
        ++pos_;
      }
    };
    const auto digit_at = [&](size_t at) { return at < text_.size() && is_digit(text_[at]); };
    take_digits();
    bool is_float = false;
    const bool after_dot =
        !tokens_.empty() && tokens_.back().text == "." && tokens_.back().type == TokenType::kOperator;
    if (!after_dot && at(".") && digit_at(pos_ + 1)) {
      is_float = true;
      digits += text_[pos_++];
      take_digits();
    }
    if (!after_dot && (at("e") || at("E"))) {
      const size_t n_sign = text_.substr(pos_ + 1, 1) == "-" || text_.substr(pos_ + 1, 1) == "+" ? 1 : 0;
      if (digit_at(pos_ + 1 + n_sign)) {
        is_float = true;
        digits += text_.substr(pos_, 1 + n_sign);
        pos_ += 1 + n_sign;
        take_digits();
      }
    }
    add(is_float ? TokenType::kFloat : TokenType::kInteger, std::move(digits));
  }

  void read_string(char quote) {
    const int begin_line = line_;
    std::string value;
    size_t at = pos_ + 1;
    while (at < text_.size() && text_[at] != quote) {
      if (text_[at] == '\\')
        read_escape(at, value);
      else
        value += text_[at++];
    }
    if (at >= text_.size()) fail_at(begin_line, ErrorCode::kFormat, "a string has no end, expected {}", quote);
    add(TokenType::kString, std::move(value));
    advance(at + 1);
  }

  /// Python's escapes, from the backslash at `at` on.
  void read_escape(size_t& at, std::string& value) const {
    const char c = at + 1 < text_.size() ? text_[at + 1] : '\0';
    at += 2;
    static constexpr std::string_view kNames = "\\'\"abfnrtv";
    static constexpr std::string_view kBytes = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t i = kNames.find(c); i != kNames.npos) {
      value += kBytes[i];
      return;
    }
    if (c == '\n') return;
    size_t n_digits = 0;
    uint32_t base = 16;
    switch (c) {
      case 'x':
        n_digits = 2;
        break;
      case 'u':
        n_digits = 4;
        break;
      case 'U':
        n_digits = 8;
        break;
      case 'N':
        fail_at(line_, ErrorCode::kUnsupported, "the escape \\N in a string is not supported");
      default:
        break;
    }
    const bool octal = c >= '0' && c <= '7';
    if (octal) {
      n_digits = 3;
      base = 8;
      --at;
    }
    if (n_digits == 0) {  // not an escape
      value += '\\';
      --at;
      return;
    }
    uint32_t code = 0;
    size_t n = 0;
    for (; n < n_digits && at < text_.size(); ++n, ++at) {
      const char d = text_[at];
      const uint32_t digit = is_digit(d)            ? static_cast<uint32_t>(d - '0')
                             : d >= 'a' && d <= 'f' ? static_cast<uint32_t>(d - 'a' + 10)
                             : d >= 'A' && d <= 'F' ? static_cast<uint32_t>(d - 'A' + 10)
                                                    : 99;
      if (digit >= base) break;
      code = code * base + digit;
    }
    const bool complete = octal || n == n_digits;
    if (!complete || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      fail_at(line_, ErrorCode::kFormat, "a \\{} escape in a string names no character", c);
    append_utf8(code, value);
  }

  void read_operator(std::string& open) {
    static constexpr std::array<std::string_view, 6> kDouble{"**", "//", "==", "!=", ">=", "<="};
    for (const std::string_view op : kDouble) {
      if (!at(op)) continue;
      add(TokenType::kOperator, std::string(op));
      pos_ += 2;
      return;
    }
    const char c = text_[pos_];
    static constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    if (kSingle.find(c) == kSingle.npos) {
      const size_t n = character_at(text_, pos_).n_bytes;
      fail_at(line_, ErrorCode::kFormat, "unexpected character '{}'", text_.substr(pos_, n));
    }
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail_at(line_, ErrorCode::kFormat, "unexpected '{}'", c);
      open.pop_back();
    }
    add(TokenType::kOperator, std::string(1, c));
    ++pos_;
  }

  const std::string source_;
  const std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the text from pos_ on begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace kda::jinja
