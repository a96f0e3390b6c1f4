// The user's terminal: its modes, its size, the signals that concern it, and the reading of a message with editing.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line_editor.h"

namespace kda::cli {

/// Ctrl-C sets a flag that interrupted() shows; the press after `presses - 1` unanswered ones ends the process at once
/// with status 130. A SIGINT that was ignored when the program began stays ignored. Call once.
void install_interrupt_handler(int presses) noexcept;
[[nodiscard]] bool interrupted() noexcept;
void clear_interrupt() noexcept;

/// SIGTERM, SIGHUP and SIGQUIT leave_in_order() before they end the process. Call once at start.
void install_end_handlers() noexcept;
/// Gives the terminal back its mode and removes half-written files. Async-signal-safe.
void leave_in_order() noexcept;

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
[[nodiscard]] TerminalSize terminal_size(int fd) noexcept;

/// True when standard input and output are a terminal that knows cursor movement.
[[nodiscard]] bool can_edit_lines() noexcept;

/// While it lives, standard input gives every key as a byte, without echo; Ctrl-C and Ctrl-Z work as signals unless
/// turned off. One mode for the whole chat: in the terminal's own line mode a Ctrl-D or Enter that comes between two
/// messages would turn into something else. The mode before comes back at the end, also when a signal ends or stops the
/// process. One at a time.
class TerminalMode {
 public:
  TerminalMode() noexcept;
  ~TerminalMode();
  TerminalMode(const TerminalMode&) = delete;
  TerminalMode& operator=(const TerminalMode&) = delete;

  void set_signal_keys(bool on) noexcept;
};

/// Reads messages from the terminal, which is in the key mode as long as this lives. Keeps what was typed ahead.
class LineReader {
 public:
  enum class Result { kLine, kInterrupted, kEnd };

  LineReader(const std::vector<std::string>& history, LineEditor::Completer completer);

  /// Shows the prompt and edits until Enter, Ctrl-C on any line, or Ctrl-D on an empty one. `typed` gets the text.
  [[nodiscard]] Result read(std::string_view prompt, std::string_view continuation, std::string& typed);

 private:
  [[nodiscard]] bool next_byte(uint8_t& byte, std::string_view prompt, std::string_view continuation);
  void show(std::string_view prompt, std::string_view continuation);
  void show_all(std::string_view prompt, std::string_view continuation);
  void show_candidates(std::string_view prompt, std::string_view continuation);
  [[nodiscard]] size_t rows_above_cursor(int columns) const;

  TerminalMode mode_;
  LineEditor editor_;
  std::deque<uint8_t> input_;
  std::vector<int> shown_widths_;  // of the rows on the screen, down to the cursor's
  int shown_columns_ = 80;
};

}  // namespace kda::cli
