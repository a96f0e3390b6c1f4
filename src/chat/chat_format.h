// Conversations -> token ids, by the model's own template or the family's built-in format (model-spec 6.6).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kda {

struct ToolCall {
  std::string id;  // "functions.NAME:INDEX"
  std::string name;
  std::string arguments;  // JSON text
};

struct ChatMessage {
  std::string role;                  // "system", "user", "assistant", "tool"
  std::string content;               // text
  std::string name;                  // optional
  std::vector<ToolCall> tool_calls;  // assistant
  std::string tool_call_id;          // tool
};

/// Text of a prompt, cut where trust changes: only pieces that the template wrote may hold control tokens.
struct PromptPiece {
  std::string text;
  bool from_template = false;
};

struct RenderedPrompt {
  std::vector<int32_t> ids;
  std::string text;              // all pieces joined
  std::vector<int64_t> borders;  // positions in ids where a message ends (after <|im_end|>), increasing
};

/// How a model wants its conversations written. Immutable, thread-safe.
class ChatFormat {
 public:
  /// nullopt-like nullptr when the vocabulary has none of the format's tokens and there is no template: the model has
  /// no chat format. template_text: the Jinja text of the model, or empty for the built-in format. bos_token: its name
  /// or "". Throws Error(kUnsupported) for a template that uses something the engine does not know, with its line.
  static std::unique_ptr<ChatFormat> create(const Tokenizer& tokenizer, std::string template_text);
  ~ChatFormat();

  /// tools_json: an OpenAI-style array as JSON text, or empty. Throws Error(kUsage | kFormat).
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
