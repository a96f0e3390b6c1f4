// Files and streams that commands read and write, and what the environment says about where they lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kda::cli {

/// The value of an environment variable, or "". In the form that locate_model and Engine::open take.
[[nodiscard]] std::string environment(const char* name);

/// All of standard input. Throws Error(kIo | kInterrupted), or Error(kLimit) past max_bytes.
[[nodiscard]] std::string read_input(size_t max_bytes = size_t{64} << 20);

/// Reads standard input line by line. Throws Error(kIo | kInterrupted), or Error(kLimit) for a line past 64 MiB.
class InputLines {
 public:
  /// The next line without its '\n'; false at the end.
  [[nodiscard]] bool next(std::string& line);

 private:
  std::string buffered_;
  size_t at_ = 0;
  bool ended_ = false;
};

/// "~" and "~/..." lead to the home folder.
[[nodiscard]] std::filesystem::path user_path(std::string_view typed);

/// Writes a file that only its owner may read: under a temporary name, then renamed. Throws Error(kIo).
void write_private_file(const std::filesystem::path& path, std::string_view bytes);

/// $XDG_STATE_HOME/kda or ~/.local/state/kda; empty when neither is known.
[[nodiscard]] std::filesystem::path state_folder();

/// The messages typed before, oldest first, in a file that only its owner may read. Trouble with the file is no error:
/// the history is then only kept while the program runs.
class History {
 public:
  static constexpr size_t kMaxEntries = 1000;

  /// An empty path keeps nothing on disk.
  explicit History(std::filesystem::path path);

  void add(const std::string& entry);
  [[nodiscard]] const std::vector<std::string>& entries() const noexcept { return entries_; }

 private:
  std::filesystem::path path_;
  std::vector<std::string> entries_;
};

}  // namespace kda::cli
