#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace kda::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kShowAfter{400};
constexpr milliseconds kShowEvery{100};

/// 0, or the error number.
int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  while (value >= step && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  const int digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, *unit);
}

}  // namespace

void write_output(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw OutputClosed{};
  if (error != 0) fail(ErrorCode::kIo, "standard output cannot be written: {}", std::strerror(error));
}

std::string json_text(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

void write_note(std::string_view line) { static_cast<void>(write_all(STDERR_FILENO, std::string(line) + '\n')); }

void write_warning(std::string_view text) { write_note(fmt::format("kda: warning: {}", one_line(text))); }

std::string faint(std::string_view text) {
  static const bool colours = [] {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return isatty(STDERR_FILENO) != 0 && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
           std::string_view(term) != "dumb";
  }();
  return colours ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

std::string human_bytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return scaled(static_cast<double>(bytes) / 1024, 1024, {"KiB", "MiB", "GiB", "TiB"});
}

std::string human_count(int64_t n) {
  if (n < 1000) return fmt::format("{}", n);
  return scaled(static_cast<double>(n) / 1000, 1000, {"K", "M", "B", "T"});
}

Progress::Progress(std::string label, bool enabled, bool bytes)
    : label_(std::move(label)),
      enabled_(enabled && isatty(STDERR_FILENO) != 0),
      bytes_(bytes),
      begin_(steady_clock::now()) {}

void Progress::update(int64_t done, int64_t total) {
  if (!enabled_ || total <= 0) return;
  const auto now = steady_clock::now();
  if (first_ < 0) first_ = done;
  if (now - begin_ < kShowAfter || (shown_ && now - last_ < kShowEvery)) return;
  last_ = now;
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const int bar_width = std::clamp(terminal_size(STDERR_FILENO).columns - 50, 0, 30);
  const int filled = static_cast<int>(share * bar_width);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  std::string left;
  if (done > first_) {
    const double rate = static_cast<double>(done - first_) / seconds;
    if (bytes_) left = fmt::format(", {}/s", human_bytes(static_cast<int64_t>(rate)));
    left += fmt::format(", {:.0f} s left", static_cast<double>(total - done) / rate);
  }
  static_cast<void>(write_all(STDERR_FILENO, fmt::format("\r\x1b[K{} {:#<{}}{:.<{}} {:3.0f}%{}", label_, "", filled, "",
                                                         bar_width - filled, share * 100, left)));
}

void Progress::clear() {
  if (std::exchange(shown_, false)) static_cast<void>(write_all(STDERR_FILENO, "\r\x1b[K"));
}

}  // namespace kda::cli
