// A chat as the user drives it: turns and slash commands. Reading the keyboard is done elsewhere.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/conversation.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace kda::cli {

/// The commands that begin with `prefix`, for Tab.
[[nodiscard]] std::vector<std::string> matching_commands(std::string_view prefix);

class ChatSession {
 public:
  /// engine outlives the session. interactive: notes go to the terminal, and an error in a turn does not end the chat.
  /// Throws Error(kUnsupported) when the model has no chat format.
  ChatSession(const Engine& engine, int64_t context, GenerateOptions options, bool interactive, bool verbose);

  void set_system(std::string text) { conversation_.set_system(std::move(text)); }

  /// A message or a slash command. Returns false when the chat is to end. Throws OutputClosed; Error only when not
  /// interactive.
  bool handle(const std::string& typed);

  /// A note for the user that is no part of an answer.
  void say(std::string_view text) const;

 private:
  enum class Outcome { kAnswered, kNothing };

  bool command(std::string_view name, std::string_view argument);
  void ask(const std::string& question);
  void retry();
  void undo();
  void save(std::string_view file);
  void load(std::string_view file);
  void show_stats() const;
  /// Answers the question that stands last; without an answer the conversation is as before.
  Outcome answer();

  const Engine& engine_;
  std::unique_ptr<Sequence> sequence_;
  GenerateOptions options_;
  bool interactive_;
  bool verbose_;
  Conversation conversation_;
  Generation last_;
  uint64_t n_answers_ = 0;
};

}  // namespace kda::cli
