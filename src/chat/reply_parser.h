// Sampled tokens of an answer -> what they mean: thoughts, text to show, tool calls; as a stream of deltas.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_format.h"

namespace kda {

/// What is new of one tool call.
struct ToolCallDelta {
  int32_t index = 0;        // counts the calls of this answer from 0
  std::string id{};         // on the first delta of a call, with the name; else empty
  std::string name{};       //
  std::string arguments{};  // the next characters of the JSON text; whole UTF-8 characters
};

/// What a token added. Any part may be empty; all text is valid UTF-8 in whole characters.
struct ReplyDelta {
  std::string reasoning{};
  std::string content{};
  std::vector<ToolCallDelta> tool_calls{};

  [[nodiscard]] bool empty() const noexcept { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

/// What is known of an answer before it begins.
struct ReplyOptions {
  bool tools = false;               // calls are wanted: they become tool_calls; false: their markup is dropped
  bool parallel_tool_calls = true;  // false: the answer ends after one call
  bool thinking = false;            // the prompt opened the thoughts
  int32_t first_call = 0;           // calls that the conversation holds already: ids count on from there
  std::vector<std::string> stop{};  // strings that end the answer when its content (never its calls) shows them
};

/// Reads one answer. The deltas joined are the same however the text was cut into tokens; markers of the format and
/// halves of them never show. No length is too long. Not thread-safe.
class ReplyParser {
 public:
  virtual ~ReplyParser() = default;

  /// The next token: its bytes, or its name when `control` says that it is a control token.
  [[nodiscard]] virtual ReplyDelta push(std::string_view bytes, bool control) = 0;
  /// All that was held back, at the end of the generation. A call that was cut short keeps what came of it.
  [[nodiscard]] virtual ReplyDelta finish() = 0;
  /// The answer is complete: a stop string was found, or the one call that was allowed was made. What is pushed after
  /// that is dropped.
  [[nodiscard]] virtual bool done() const noexcept = 0;
  /// A stop string was found.
  [[nodiscard]] virtual bool stopped() const noexcept = 0;
};

/// The format of Kimi Linear and Kimi K2: <|tool_calls_section_begin|> ... <|tool_calls_section_end|> (model-spec 6.6).
[[nodiscard]] std::unique_ptr<ReplyParser> make_kimi_reply_parser(const ReplyOptions& options);

/// Joins deltas to the whole answer.
struct Reply {
  std::string reasoning{};
  std::string content{};
  std::vector<ToolCall> tool_calls{};

  void add(const ReplyDelta& delta);
};

}  // namespace kda
