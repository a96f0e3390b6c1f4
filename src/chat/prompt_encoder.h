// Text of known origin -> token ids.
#pragma once

#include <bitset>
#include <optional>
#include <vector>

#include "chat/chat_format.h"
#include "chat/jinja/text.h"

namespace kda {

/// Turns names of control tokens into those tokens where the template wrote them; all other text is encoded as text, in
/// pieces that only control tokens separate. Immutable, thread-safe; the tokenizer must outlive it.
class PromptEncoder {
 public:
  explicit PromptEncoder(const Tokenizer& tokenizer);

  /// Throws Error(kLimit) for a text that is too long for the tokenizer.
  [[nodiscard]] RenderedPrompt encode(const jinja::Text& text) const;

 private:
  struct Name {
    int32_t id;
    size_t n_bytes;
  };
  [[nodiscard]] std::optional<Name> longest_name_at(std::string_view text) const;

  const Tokenizer& tokenizer_;
  std::vector<size_t> name_lengths_;  // of control tokens, falling, without repeats
  std::bitset<256> first_bytes_;      // of their names
};

}  // namespace kda
