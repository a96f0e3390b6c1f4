// Token bytes -> text that can be shown: whole UTF-8 characters only, stop strings held back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kda {

/// Collects bytes and gives back text. Not thread-safe.
class TextStream {
 public:
  /// Stop strings that are empty are ignored.
  explicit TextStream(std::vector<std::string> stop = {});

  /// Adds bytes of a token and returns what may be shown now: whole characters (invalid bytes become U+FFFD), without
  /// anything that might be the beginning of a stop string. After a stop string was found the rest is dropped.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// Everything held back, at the end of the generation.
  [[nodiscard]] std::string finish();
  /// True once a stop string was completed; it and what follows is not shown.
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

 private:
  std::vector<std::string> stop_;
  std::string pending_bytes_;  // the beginning of a character
  std::string held_;           // may become a stop string
  bool stopped_ = false;
};

}  // namespace kda
