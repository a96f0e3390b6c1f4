// Conversations -> token ids, by the model's own template or the family's built-in format (model-spec 6.6).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kda {

struct ToolCall {
  std::string id{};  // "functions.NAME:INDEX"; made so when empty, INDEX counts the calls of the conversation from 0
  std::string name{};
  std::string arguments{};  // JSON text
};

struct ChatMessage {
  std::string role{};                  // "system", "user", "assistant", "tool"
  std::string content{};               // text
  std::string name{};                  // optional
  std::vector<ToolCall> tool_calls{};  // assistant
  std::string tool_call_id{};          // tool; the text is "None" when empty, as the published prompts have it
  std::string reasoning_content{};     // assistant; for templates that repeat the thoughts of the latest turn
};

struct RenderedPrompt {
  std::vector<int32_t> ids;
  std::string text;              // the same as text, with the names of the control tokens
  std::vector<int64_t> borders;  // positions in ids where a message ends (after <|im_end|>), increasing
};

/// How a model wants its conversations written. Only what the template (or the built-in format) writes itself can
/// become a control token: names of control tokens in messages, names, ids and tools stay text. Immutable, thread-safe.
class ChatFormat {
 public:
  /// nullptr when the vocabulary lacks the tokens of the built-in format and there is no template: the model has no
  /// chat format. template_text: the Jinja text of the model, or empty for the built-in format. The tokenizer must
  /// outlive the result. Throws Error(kUnsupported) for a template that uses something the engine does not know and
  /// Error(kFormat | kLimit) for one that is broken, with its line; a short conversation is rendered to find out.
  static std::unique_ptr<ChatFormat> create(const Tokenizer& tokenizer, std::string_view template_text);
  ~ChatFormat();

  /// tools_json: an OpenAI-style array as JSON text, or empty; the built-in format sorts its keys, a template gets them
  /// in their order. Throws Error(kUsage) for a conversation that the format or template refuses, Error(kFormat) for
  /// broken JSON or a template that fails, Error(kLimit) for one that needs too much.
  [[nodiscard]] RenderedPrompt render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                      std::string_view tools_json = {}) const;
  /// "built-in" or "template of the model".
  [[nodiscard]] std::string_view source() const noexcept;

 private:
  ChatFormat();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
