#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "cli/line_layout.h"
#include "cli/text.h"
#include "formats/atomic_file.h"

namespace kda::cli {

namespace {

// What signal handlers touch. Lock-free atomics and async-signal-safe calls only.
std::atomic<int> interrupt_presses{0};
std::atomic<int> presses_that_end{2};
std::atomic<bool> window_changed{false};
std::atomic<bool> mode_changed{false};
termios mode_before;  // these two are written before mode_changed is set
termios mode_keys;

constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";

void restore_mode() noexcept {
  if (mode_changed.load()) tcsetattr(STDIN_FILENO, TCSANOW, &mode_before);
}

extern "C" void on_interrupt(int) {
  const int saved_errno = errno;
  if (interrupt_presses.fetch_add(1) + 1 >= presses_that_end.load()) {
    leave_in_order();
    _exit(130);
  }
  errno = saved_errno;
}

extern "C" void on_end(int signal_number) {
  leave_in_order();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

extern "C" void on_window_change(int) { window_changed.store(true); }

/// The shell has changed the mode.
void set_mode_again() noexcept {
  if (mode_changed.load()) tcsetattr(STDIN_FILENO, TCSANOW, &mode_keys);
}

/// The shell gets its terminal back, then the process stops as the signal asks.
extern "C" void on_stop(int signal_number) {
  const int saved_errno = errno;
  restore_mode();
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, &before);
  std::raise(signal_number);
  sigset_t pending;
  sigset_t mask;
  sigemptyset(&pending);
  sigaddset(&pending, signal_number);
  pthread_sigmask(SIG_UNBLOCK, &pending, &mask);  // stops here; goes on after SIGCONT
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  sigaction(signal_number, &before, nullptr);
  set_mode_again();  // here too: another thread may be the one that handles SIGCONT, and later
  errno = saved_errno;
}

/// Whatever stopped the process: other text may stand on the screen.
extern "C" void on_continue(int) {
  const int saved_errno = errno;
  set_mode_again();
  window_changed.store(true);
  errno = saved_errno;
}

void set_handler(int signal_number, void (*handler)(int)) noexcept {
  struct sigaction action {};
  sigaction(signal_number, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);  // without SA_RESTART: reads come back
}

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;  // the terminal is gone: the next read tells
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

void install_interrupt_handler(int presses) noexcept {
  presses_that_end = presses;
  set_handler(SIGINT, on_interrupt);
}

void install_end_handlers() noexcept {
  for (const int signal_number : {SIGTERM, SIGHUP, SIGQUIT}) set_handler(signal_number, on_end);
}

void leave_in_order() noexcept {
  remove_unfinished_files();
  if (!mode_changed.load()) return;
  restore_mode();
  static_cast<void>(!write(STDERR_FILENO, "\n", 1));  // what follows begins on a line of its own
}

bool interrupted() noexcept { return interrupt_presses.load() > 0; }

void clear_interrupt() noexcept { interrupt_presses = 0; }

TerminalSize terminal_size(int fd) noexcept {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

bool can_edit_lines() noexcept {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  return !dumb && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

TerminalMode::TerminalMode() noexcept {
  if (tcgetattr(STDIN_FILENO, &mode_before) != 0) return;
  mode_keys = mode_before;
  mode_keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  mode_keys.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | INLCR | IGNCR | ISTRIP | BRKINT);
  mode_keys.c_cc[VMIN] = 1;
  mode_keys.c_cc[VTIME] = 0;
  mode_changed = true;
  set_handler(SIGWINCH, on_window_change);
  set_handler(SIGTSTP, on_stop);
  set_handler(SIGCONT, on_continue);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode_keys);
}

TerminalMode::~TerminalMode() {
  if (!mode_changed) return;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode_before);
  mode_changed = false;
}

void TerminalMode::set_signal_keys(bool on) noexcept {
  if (!mode_changed) return;
  if (on) {
    mode_keys.c_lflag |= ISIG;
  } else {
    mode_keys.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  }
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode_keys);
}

LineReader::LineReader(const std::vector<std::string>& history, LineEditor::Completer completer)
    : editor_(history, std::move(completer)) {}

LineReader::Result LineReader::read(std::string_view prompt, std::string_view continuation, std::string& typed) {
  editor_.start();
  shown_widths_.clear();
  mode_.set_signal_keys(false);
  write_all(kPasteOn);
  show(prompt, continuation);
  Result result = Result::kEnd;
  for (bool editing = true; editing;) {
    uint8_t byte = 0;
    if (!next_byte(byte, prompt, continuation)) {
      write_all("\r\n");
      break;
    }
    switch (editor_.feed(byte)) {
      case LineEditor::Event::kNone:
        break;
      case LineEditor::Event::kChanged:
        if (input_.empty()) show(prompt, continuation);
        break;
      case LineEditor::Event::kBell:
        write_all("\a");
        break;
      case LineEditor::Event::kClearScreen:
        write_all("\x1b[H\x1b[2J");
        shown_widths_.clear();
        show(prompt, continuation);
        break;
      case LineEditor::Event::kCandidates:
        show_candidates(prompt, continuation);
        break;
      case LineEditor::Event::kSuspend:
        write_all(kPasteOff);
        write_all("\r\n");
        std::raise(SIGTSTP);
        write_all(kPasteOn);
        shown_widths_.clear();
        show(prompt, continuation);
        break;
      case LineEditor::Event::kAccept:
        show_all(prompt, continuation);
        typed = editor_.text();
        result = Result::kLine;
        editing = false;
        break;
      case LineEditor::Event::kInterrupt:
        show_all(prompt, continuation);
        result = Result::kInterrupted;
        editing = false;
        break;
      case LineEditor::Event::kEndOfInput:
        write_all("\r\n");
        editing = false;
        break;
    }
  }
  write_all(kPasteOff);
  mode_.set_signal_keys(true);
  return result;
}

/// False at the end of the input. Shows the line again when the window changes while it waits.
bool LineReader::next_byte(uint8_t& byte, std::string_view prompt, std::string_view continuation) {
  while (input_.empty()) {
    if (window_changed.exchange(false)) show(prompt, continuation);
    char bytes[4096];
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) input_.insert(input_.end(), bytes, bytes + n);
  }
  byte = input_.front();
  input_.pop_front();
  return true;
}

/// Rows between the first row shown and the cursor, on a terminal that may have been resized since and wraps anew.
size_t LineReader::rows_above_cursor(int columns) const {
  if (shown_widths_.empty()) return 0;
  size_t rows = shown_widths_.size() - 1;
  if (columns == shown_columns_) return rows;
  for (const int width : shown_widths_) rows += static_cast<size_t>(std::max(width - 1, 0) / columns);
  return rows;
}

void LineReader::show(std::string_view prompt, std::string_view continuation) {
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  std::string search_prompt;
  if (editor_.searching()) {
    search_prompt = fmt::format("(search '{}') ", editor_.search_query());
    if (column_width(search_prompt) > size.columns / 2) search_prompt = "(search) ";
    prompt = search_prompt;
  }
  LineLayout layout = lay_out(prompt, continuation, editor_.text(), editor_.cursor(), size.columns);

  // A text higher than the screen is seen through a window around the cursor.
  const auto height = static_cast<size_t>(size.rows);
  const size_t first =
      layout.rows.size() <= height
          ? 0
          : std::min(layout.rows.size() - height, layout.cursor_row >= height / 2 ? layout.cursor_row - height / 2 : 0);
  const size_t last = std::min(first + height, layout.rows.size());

  std::string out;
  const size_t above = rows_above_cursor(size.columns);
  if (above > 0) out += fmt::format("\x1b[{}A", above);
  out += "\r\x1b[J";
  std::vector<int> widths;
  for (size_t i = first; i < last; ++i) {
    if (i > first) out += "\r\n";
    out += layout.rows[i];
    if (i <= layout.cursor_row) widths.push_back(column_width(layout.rows[i]));
  }
  if (last - 1 > layout.cursor_row) out += fmt::format("\x1b[{}A", last - 1 - layout.cursor_row);
  out += '\r';
  if (layout.cursor_column > 0) out += fmt::format("\x1b[{}C", layout.cursor_column);
  write_all(out);
  if (!widths.empty()) widths.back() = layout.cursor_column;  // what wraps above the cursor, not what follows it
  shown_widths_ = std::move(widths);
  shown_columns_ = size.columns;
}

/// The whole text once more, the cursor behind it on a row of its own.
void LineReader::show_all(std::string_view prompt, std::string_view continuation) {
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  const LineLayout layout = lay_out(prompt, continuation, editor_.text(), editor_.text().size(), size.columns);
  std::string out;
  const size_t above = rows_above_cursor(size.columns);
  if (above > 0) out += fmt::format("\x1b[{}A", above);
  out += "\r\x1b[J";
  for (size_t i = 0; i < layout.rows.size(); ++i) {
    const bool wrap_only = i + 1 == layout.rows.size() && i > 0 && layout.rows[i].empty();
    if (!wrap_only) out += layout.rows[i] + "\r\n";
  }
  write_all(out);
  shown_widths_.clear();
}

void LineReader::show_candidates(std::string_view prompt, std::string_view continuation) {
  show_all(prompt, continuation);
  std::string out;
  for (const std::string& candidate : editor_.candidates()) out += terminal_safe(candidate) + "  ";
  write_all(out + "\r\n");
  show(prompt, continuation);
}

}  // namespace kda::cli
