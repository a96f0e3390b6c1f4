#include "cli/line_editor.h"

#include <algorithm>
#include <utility>

#include "cli/text.h"

namespace kda::cli {

namespace {

constexpr std::string_view kBlockQuote = "\"\"\"";
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr size_t kMaxParameterBytes = 32;

constexpr uint8_t ctrl(char letter) { return static_cast<uint8_t>(letter & 0x1F); }
constexpr uint8_t kEscapeByte = 0x1B;
constexpr uint8_t kBackspace = 0x7F;
constexpr uint8_t kTab = '\t';

std::string_view trim(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\n") - begin + 1);
}

/// Letters, digits and everything beyond ASCII make words.
bool is_word(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u >= 0x80 || (u >= '0' && u <= '9') || ((u | 0x20) >= 'a' && (u | 0x20) <= 'z');
}

}  // namespace

bool inside_block(std::string_view message) noexcept {
  const std::string_view text = trim(message);
  return text.starts_with(kBlockQuote) && text.find(kBlockQuote, kBlockQuote.size()) == std::string_view::npos;
}

std::string message_text(std::string_view typed) {
  const std::string_view text = trim(typed);
  const size_t quote = kBlockQuote.size();
  if (text.starts_with(kBlockQuote) && text.size() >= 2 * quote &&
      text.find(kBlockQuote, quote) == text.size() - quote) {
    std::string_view block = text.substr(quote, text.size() - 2 * quote);
    if (block.starts_with('\n')) block.remove_prefix(1);
    if (block.ends_with('\n')) block.remove_suffix(1);
    return std::string(block);
  }
  while (typed.ends_with('\n')) typed.remove_suffix(1);
  return std::string(typed);
}

LineEditor::LineEditor(const std::vector<std::string>& history, Completer completer)
    : history_(history), completer_(std::move(completer)), history_at_(history.size()) {}

void LineEditor::start() {
  text_.clear();
  cursor_ = 0;
  state_ = State::kGround;
  parameters_.clear();
  utf8_.clear();
  pasted_.clear();
  history_at_ = history_.size();
  draft_.clear();
  candidates_.clear();
  tab_before_ = false;
  searching_ = false;
  query_.clear();
}

LineEditor::Event LineEditor::feed(uint8_t byte) {
  const bool was_searching = searching_;
  const Event event = key(byte);
  // The search prompt has to go, even if the key did nothing else.
  if (was_searching && !searching_ && (event == Event::kNone || event == Event::kBell)) return Event::kChanged;
  return event;
}

LineEditor::Event LineEditor::key(uint8_t byte) {
  if (state_ == State::kPaste) return paste_byte(byte);
  const bool tab_before = std::exchange(tab_before_, false);
  switch (state_) {
    case State::kEscape:
      return after_escape(byte);
    case State::kSs3:
      state_ = State::kGround;
      return cursor_key(byte, false);
    case State::kSequence:
      if (byte < 0x20) {  // a control character ends a broken sequence
        state_ = State::kGround;
        return control(byte);
      }
      if (byte < 0x40) {
        if (parameters_.size() < kMaxParameterBytes) parameters_ += static_cast<char>(byte);
        return Event::kNone;
      }
      state_ = State::kGround;
      return sequence(byte);
    default:
      break;
  }
  if (byte == kEscapeByte) {
    utf8_.clear();
    state_ = State::kEscape;
    return Event::kNone;
  }
  if (searching_ && (byte < 0x20 || byte == kBackspace)) return search_key(byte);
  if (byte == kTab) {
    tab_before_ = tab_before;
    return complete();
  }
  if (byte < 0x20 || byte == kBackspace) return control(byte);
  return utf8_byte(byte);
}

LineEditor::Event LineEditor::control(uint8_t byte) {
  utf8_.clear();
  switch (byte) {
    case ctrl('A'):
      return move_to(line_begin(cursor_));
    case ctrl('B'):
      return move_to(previous_character(text_, cursor_));
    case ctrl('C'):
      return Event::kInterrupt;
    case ctrl('D'):
      if (text_.empty()) return Event::kEndOfInput;
      return erase(cursor_, next_character(text_, cursor_), false);
    case ctrl('E'):
      return move_to(line_end(cursor_));
    case ctrl('F'):
      return move_to(next_character(text_, cursor_));
    case ctrl('H'):
    case kBackspace:
      return erase(previous_character(text_, cursor_), cursor_, false);
    case ctrl('J'):
    case ctrl('M'):
      return accept();
    case ctrl('K'): {
      const size_t end = line_end(cursor_);
      return erase(cursor_, end > cursor_ ? end : next_character(text_, cursor_), true);
    }
    case ctrl('L'):
      return Event::kClearScreen;
    case ctrl('N'):
      return down();
    case ctrl('P'):
      return up();
    case ctrl('R'):
      searching_ = true;
      query_.clear();
      match_ = history_.size();
      before_search_ = text_;
      return Event::kChanged;
    case ctrl('T'):
      return transpose();
    case ctrl('U'):
      return erase(line_begin(cursor_), cursor_, true);
    case ctrl('W'): {
      size_t begin = cursor_;
      const auto is_space = [&](size_t i) { return text_[i] == ' ' || text_[i] == '\t' || text_[i] == '\n'; };
      while (begin > 0 && is_space(begin - 1)) --begin;
      while (begin > 0 && !is_space(begin - 1)) --begin;
      return erase(begin, cursor_, true);
    }
    case ctrl('Y'):
      return killed_.empty() ? Event::kBell : insert(std::string(killed_));
    case ctrl('Z'):
      return Event::kSuspend;
    default:
      return Event::kNone;
  }
}

LineEditor::Event LineEditor::after_escape(uint8_t byte) {
  state_ = State::kGround;
  if (byte == '[') {
    parameters_.clear();
    state_ = State::kSequence;
    return Event::kNone;
  }
  if (byte == 'O') {
    state_ = State::kSs3;
    return Event::kNone;
  }
  if (byte == kEscapeByte) {
    state_ = State::kEscape;
    return Event::kNone;
  }
  searching_ = false;
  switch (byte) {
    case 'b':
      return move_to(word_left(cursor_));
    case 'f':
      return move_to(word_right(cursor_));
    case 'd':
      return erase(cursor_, word_right(cursor_), true);
    case ctrl('H'):
    case kBackspace:
      return erase(word_left(cursor_), cursor_, true);
    case ctrl('J'):
    case ctrl('M'):
      return insert("\n");
    case '<':
      return move_to(0);
    case '>':
      return move_to(text_.size());
    default:
      return Event::kNone;
  }
}

LineEditor::Event LineEditor::sequence(uint8_t final_byte) {
  if (final_byte != '~') {
    return cursor_key(final_byte, parameters_.ends_with(";5") || parameters_.ends_with(";3"));
  }
  if (parameters_ == "200") {
    state_ = State::kPaste;
    pasted_.clear();
    return Event::kNone;
  }
  if (parameters_ == "1" || parameters_ == "7") return cursor_key('H', false);
  if (parameters_ == "4" || parameters_ == "8") return cursor_key('F', false);
  if (parameters_ == "3") {
    searching_ = false;
    return erase(cursor_, next_character(text_, cursor_), false);
  }
  return Event::kNone;
}

LineEditor::Event LineEditor::cursor_key(uint8_t final_byte, bool by_word) {
  searching_ = false;
  switch (final_byte) {
    case 'A':
      return up();
    case 'B':
      return down();
    case 'C':
      return move_to(by_word ? word_right(cursor_) : next_character(text_, cursor_));
    case 'D':
      return move_to(by_word ? word_left(cursor_) : previous_character(text_, cursor_));
    case 'H':
      return move_to(line_begin(cursor_));
    case 'F':
      return move_to(line_end(cursor_));
    default:
      return Event::kNone;
  }
}

LineEditor::Event LineEditor::utf8_byte(uint8_t byte) {
  utf8_ += static_cast<char>(byte);
  const auto lead = static_cast<unsigned char>(utf8_[0]);
  const size_t size = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead >= 0x80 && lead < 0xC0) {
    utf8_.clear();
    return Event::kNone;
  }
  if (utf8_.size() < size) {
    if (byte >= 0x80) return Event::kNone;
    utf8_ = static_cast<char>(byte);  // the character before was cut off
  }
  const std::string character = clean_input(std::exchange(utf8_, {}));
  if (character == "\xEF\xBF\xBD" || character.empty()) return Event::kNone;
  if (searching_) {
    query_ += character;
    return search_from(std::min(match_ + 1, history_.size()), false);
  }
  return insert(character);
}

LineEditor::Event LineEditor::paste_byte(uint8_t byte) {
  pasted_ += static_cast<char>(byte);
  if (pasted_.ends_with(kPasteEnd)) {
    state_ = State::kGround;
    searching_ = false;
    pasted_.resize(pasted_.size() - kPasteEnd.size());
    return insert(clean_input(std::exchange(pasted_, {})));
  }
  if (pasted_.size() > 2 * kMaxTextBytes) {  // keeps the tail, in which the end mark may begin
    pasted_.erase(kMaxTextBytes, kMaxTextBytes - kPasteEnd.size());
  }
  return Event::kNone;
}

LineEditor::Event LineEditor::insert(std::string_view text) {
  if (text.size() > kMaxTextBytes || text_.size() + text.size() > kMaxTextBytes) return Event::kBell;
  text_.insert(cursor_, text);
  cursor_ += text.size();
  return Event::kChanged;
}

LineEditor::Event LineEditor::accept() {
  if (inside_block(text_)) {
    cursor_ = text_.size();
    return insert("\n");
  }
  // A backslash at the end goes on with the next line, two are text.
  const size_t last = text_.find_last_not_of('\\');
  const size_t n_backslashes = text_.size() - (last == std::string::npos ? 0 : last + 1);
  if (cursor_ == text_.size() && n_backslashes % 2 == 1) {
    text_.back() = '\n';
    return Event::kChanged;
  }
  cursor_ = text_.size();
  return Event::kAccept;
}

LineEditor::Event LineEditor::move_to(size_t at) {
  if (at == cursor_) return Event::kNone;
  cursor_ = at;
  return Event::kChanged;
}

LineEditor::Event LineEditor::erase(size_t begin, size_t end, bool keep) {
  if (begin == end) return Event::kBell;
  if (keep) killed_ = text_.substr(begin, end - begin);
  text_.erase(begin, end - begin);
  cursor_ = begin;
  return Event::kChanged;
}

LineEditor::Event LineEditor::transpose() {
  const size_t end = cursor_ == line_end(cursor_) ? cursor_ : next_character(text_, cursor_);
  const size_t middle = previous_character(text_, end);
  if (middle <= line_begin(end)) return Event::kBell;
  const size_t begin = previous_character(text_, middle);
  const std::string first = text_.substr(begin, middle - begin);
  text_.erase(begin, first.size());
  text_.insert(end - first.size(), first);
  cursor_ = end;
  return Event::kChanged;
}

LineEditor::Event LineEditor::complete() {
  const bool second = std::exchange(tab_before_, true);
  utf8_.clear();
  candidates_ = completer_ ? completer_(std::string_view(text_).substr(0, cursor_)) : std::vector<std::string>();
  if (candidates_.empty()) return Event::kBell;
  std::string common = candidates_.front();
  for (const std::string& c : candidates_) {
    common.resize(
        static_cast<size_t>(std::mismatch(common.begin(), common.end(), c.begin(), c.end()).first - common.begin()));
  }
  if (candidates_.size() == 1) common += ' ';
  if (common.size() > cursor_) {
    text_.replace(0, cursor_, common);
    cursor_ = common.size();
    return Event::kChanged;
  }
  return second ? Event::kCandidates : Event::kBell;
}

LineEditor::Event LineEditor::up() {
  const size_t begin = line_begin(cursor_);
  if (begin > 0) {
    const int column = column_width(std::string_view(text_).substr(begin, cursor_ - begin));
    return move_to(at_column(line_begin(begin - 1), column));
  }
  if (history_at_ == 0) return Event::kBell;
  if (history_at_ == history_.size()) draft_ = text_;
  return show_history(history_at_ - 1);
}

LineEditor::Event LineEditor::down() {
  const size_t end = line_end(cursor_);
  if (end < text_.size()) {
    const size_t begin = line_begin(cursor_);
    const int column = column_width(std::string_view(text_).substr(begin, cursor_ - begin));
    return move_to(at_column(end + 1, column));
  }
  if (history_at_ >= history_.size()) return Event::kBell;
  return show_history(history_at_ + 1);
}

LineEditor::Event LineEditor::show_history(size_t index) {
  history_at_ = index;
  text_ = index == history_.size() ? draft_ : clean_input(history_[index]);
  cursor_ = text_.size();
  return Event::kChanged;
}

LineEditor::Event LineEditor::search_key(uint8_t byte) {
  utf8_.clear();
  if (byte == ctrl('R')) return search_from(match_, true);
  if (byte == ctrl('H') || byte == kBackspace) {
    if (query_.empty()) return Event::kBell;
    query_.erase(previous_character(query_, query_.size()));
    return search_from(history_.size(), false);
  }
  searching_ = false;
  if (byte == ctrl('G') || byte == ctrl('C')) {
    text_ = before_search_;
    cursor_ = text_.size();
    return Event::kChanged;
  }
  return byte == kTab ? Event::kNone : control(byte);
}

/// Shows the latest entry before `end` that holds the query.
LineEditor::Event LineEditor::search_from(size_t end, bool from_next_older) {
  if (query_.empty()) return from_next_older ? Event::kBell : Event::kChanged;
  for (size_t i = end; i-- > 0;) {
    const std::string entry = clean_input(history_[i]);
    const size_t found = entry.find(query_);
    if (found == std::string::npos || (from_next_older && entry == text_)) continue;
    match_ = i;
    if (history_at_ == history_.size()) draft_ = before_search_;
    history_at_ = i;
    text_ = entry;
    cursor_ = found;
    return Event::kChanged;
  }
  return Event::kBell;
}

size_t LineEditor::line_begin(size_t at) const noexcept {
  if (at == 0) return 0;
  const size_t found = text_.rfind('\n', at - 1);
  return found == std::string::npos ? 0 : found + 1;
}

size_t LineEditor::line_end(size_t at) const noexcept { return std::min(text_.find('\n', at), text_.size()); }

size_t LineEditor::word_left(size_t at) const noexcept {
  while (at > 0 && !is_word(text_[at - 1])) --at;
  while (at > 0 && is_word(text_[at - 1])) --at;
  return at;
}

size_t LineEditor::word_right(size_t at) const noexcept {
  while (at < text_.size() && !is_word(text_[at])) ++at;
  while (at < text_.size() && is_word(text_[at])) ++at;
  return at;
}

size_t LineEditor::at_column(size_t begin, int column) const noexcept {
  const size_t end = line_end(begin);
  size_t at = begin;
  for (int x = 0; at < end;) {
    const size_t next = next_character(text_, at);
    x += column_width(std::string_view(text_).substr(at, next - at));
    if (x > column) break;
    at = next;
  }
  return at;
}

}  // namespace kda::cli
