// The messages of a chat: what /undo, /retry, /save and /load work on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_format.h"
#include "engine/generate.h"
#include "formats/json.h"

namespace kda::cli {

[[nodiscard]] ChatMessage make_message(std::string role, std::string content);

/// A system message (or none), then questions and answers in turn; the last question may lack its answer.
class Conversation {
 public:
  [[nodiscard]] std::span<const ChatMessage> messages() const noexcept { return messages_; }
  /// Ids sampled for each message; empty for messages that were not sampled.
  [[nodiscard]] std::span<const std::vector<int32_t>> sampled() const noexcept { return sampled_; }
  [[nodiscard]] const std::string& system() const noexcept;
  [[nodiscard]] size_t n_turns() const noexcept;

  /// An empty text takes the system message away.
  void set_system(std::string text);
  void add_question(std::string text);
  void add_answer(std::string text, std::vector<int32_t> ids);
  /// Takes the last answer away, so that its question stands last; false when there is none.
  bool drop_answer();
  /// Takes the last question and its answer away and returns the question; empty when there is none.
  std::string drop_turn();
  /// Keeps the system message.
  void clear();

 private:
  [[nodiscard]] bool has_system() const noexcept { return !messages_.empty() && messages_.front().role == "system"; }
  void drop_last();

  std::vector<ChatMessage> messages_;
  std::vector<std::vector<int32_t>> sampled_;
};

/// The file that /save writes.
struct SavedChat {
  std::string model;  // for people
  Conversation conversation;
  GenerateOptions options;
};

[[nodiscard]] std::string save_chat(const SavedChat& chat);

/// Options that the file leaves out keep the values of `defaults`. Throws Error(kFormat | kUnsupported | kUsage) naming
/// the field, what was expected and what was found.
[[nodiscard]] SavedChat load_chat(const Json& json, const std::string& subject, const GenerateOptions& defaults);

}  // namespace kda::cli
