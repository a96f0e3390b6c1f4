// What the program writes: results to standard output, everything else to standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "formats/json.h"

namespace kda::cli {

/// Nobody reads standard output any more (`kda ... | head -1`): the program ends quietly.
struct OutputClosed {};

/// Standard output without a buffer that could be lost or written twice. Throws OutputClosed, or Error(kIo).
void write_output(std::string_view text);

/// JSON as text; bytes that are not UTF-8 become U+FFFD. indent -1: on one line.
[[nodiscard]] std::string json_text(const OrderedJson& json, int indent = -1);

/// One line to standard error. Never fails.
void write_note(std::string_view line);

/// "kda: warning: ..." to standard error.
void write_warning(std::string_view text);

/// text in a faint colour when standard error is a terminal that wants colours.
[[nodiscard]] std::string faint(std::string_view text);

/// "1.50 GiB"; bytes below 1 KiB as they are.
[[nodiscard]] std::string human_bytes(int64_t bytes);

/// "48.1 B", "7.5 M".
[[nodiscard]] std::string human_count(int64_t n);

/// A progress line on standard error, when that is a terminal and the work takes a while; otherwise nothing. With
/// `bytes` what is counted are bytes, and the rate is shown.
class Progress {
 public:
  explicit Progress(std::string label, bool enabled = true, bool bytes = false);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done, int64_t total);
  /// Takes the line away.
  void clear();

 private:
  std::string label_;
  bool enabled_;
  bool bytes_;
  bool shown_ = false;
  int64_t first_ = -1;  // done at the first update: work that was there before tells nothing about the rate
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace kda::cli
