// The editing of one message as a pure state machine: key bytes in, text and cursor out. No terminal is touched here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kda::cli {

/// True while a message that begins with """ lacks its closing """.
[[nodiscard]] bool inside_block(std::string_view message) noexcept;

/// The message meant: what stands between """ and """ when that is all of it, otherwise the text; line breaks at the
/// end are dropped.
[[nodiscard]] std::string message_text(std::string_view typed);

/// Emacs keys, UTF-8, history with search, bracketed paste, Tab completion. The text is always valid UTF-8 and the
/// cursor always stands between characters, whatever bytes come in. Not thread-safe.
class LineEditor {
 public:
  enum class Event : uint8_t {
    kNone,         // nothing to show
    kChanged,      // show text and cursor again
    kAccept,       // Enter: text() is the message
    kInterrupt,    // Ctrl-C
    kEndOfInput,   // Ctrl-D on an empty line
    kClearScreen,  // Ctrl-L
    kSuspend,      // Ctrl-Z
    kCandidates,   // a second Tab: show candidates()
    kBell,         // the key can do nothing here
  };
  /// Whole replacements for the text before the cursor.
  using Completer = std::function<std::vector<std::string>(std::string_view before_cursor)>;

  static constexpr size_t kMaxTextBytes = size_t{4} << 20;

  /// history: oldest first; outlives the editor.
  explicit LineEditor(const std::vector<std::string>& history, Completer completer = {});

  /// Begins a new message.
  void start();
  Event feed(uint8_t byte);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] size_t cursor() const noexcept { return cursor_; }
  [[nodiscard]] bool searching() const noexcept { return searching_; }
  [[nodiscard]] const std::string& search_query() const noexcept { return query_; }
  [[nodiscard]] const std::vector<std::string>& candidates() const noexcept { return candidates_; }

 private:
  enum class State : uint8_t { kGround, kEscape, kSequence, kSs3, kPaste };

  Event key(uint8_t byte);
  Event control(uint8_t byte);
  Event after_escape(uint8_t byte);
  Event sequence(uint8_t final_byte);
  Event cursor_key(uint8_t final_byte, bool by_word);
  Event utf8_byte(uint8_t byte);
  Event paste_byte(uint8_t byte);
  Event insert(std::string_view text);
  Event accept();
  Event move_to(size_t at);
  Event erase(size_t begin, size_t end, bool keep);
  Event transpose();
  Event complete();
  Event up();
  Event down();
  Event show_history(size_t index);
  Event search_key(uint8_t byte);
  Event search_from(size_t end, bool from_next_older);
  [[nodiscard]] size_t line_begin(size_t at) const noexcept;
  [[nodiscard]] size_t line_end(size_t at) const noexcept;
  [[nodiscard]] size_t word_left(size_t at) const noexcept;
  [[nodiscard]] size_t word_right(size_t at) const noexcept;
  [[nodiscard]] size_t at_column(size_t begin, int column) const noexcept;

  const std::vector<std::string>& history_;
  Completer completer_;
  std::string text_;
  size_t cursor_ = 0;
  std::string killed_;
  State state_ = State::kGround;
  std::string parameters_;  // of an escape sequence
  std::string utf8_;        // the beginning of a character
  std::string pasted_;
  size_t history_at_ = 0;  // history_.size(): the draft
  std::string draft_;
  std::vector<std::string> candidates_;
  bool tab_before_ = false;
  bool searching_ = false;
  std::string query_;
  size_t match_ = 0;  // entry that the search shows
  std::string before_search_;
};

}  // namespace kda::cli
