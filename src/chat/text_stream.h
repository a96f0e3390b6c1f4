// Token bytes -> text that can be shown: whole UTF-8 characters only, stop strings held back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

/// Collects bytes and gives back text. The text does not depend on how the bytes were cut. Not thread-safe.
class TextStream {
 public:
  /// Stop strings that are empty are ignored.
  explicit TextStream(const std::vector<std::string>& stop = {});

  /// Adds bytes of a token and returns what may be shown now: whole characters (invalid bytes become U+FFFD), without
  /// anything that might be the beginning of a stop string. The stop string that is complete first ends the text (of
  /// two that end together the longer one); it and the rest are dropped.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// Everything held back, at the end of the generation.
  [[nodiscard]] std::string finish();
  /// True once a stop string was completed; it and what follows is not shown.
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

 private:
  // One stop string as a Knuth-Morris-Pratt automaton over bytes.
  struct Stop {
    std::string text;
    std::vector<size_t> border;  // border[i]: longest proper prefix of text[0..i] that is its suffix too
    size_t matched = 0;          // bytes of text that the stream ends with
    void step(char byte);
  };

  std::string show(std::string_view text);

  std::vector<Stop> stops_;
  std::string pending_bytes_;  // the beginning of a character
  std::string held_;           // may become a stop string
  bool stopped_ = false;
};

}  // namespace kda
