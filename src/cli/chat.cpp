#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/error.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace kda::cli {

namespace {

constexpr std::string_view kPrompt = ">>> ";
constexpr std::string_view kContinuation = "... ";

struct ChatArgs {
  ModelArgs model;
  SamplingArgs sampling;
  std::string system;
};

int chat_on_terminal(ChatSession& session) {
  History history(state_folder().empty() ? std::filesystem::path() : state_folder() / "history");
  LineReader reader(history.entries(), matching_commands);
  for (;;) {
    std::string typed;
    switch (reader.read(kPrompt, kContinuation, typed)) {
      case LineReader::Result::kEnd:
        return 0;
      case LineReader::Result::kInterrupted:
        session.say("(Ctrl-D or /exit ends the chat)");
        break;
      case LineReader::Result::kLine:
        history.add(typed);
        if (!session.handle(message_text(typed))) return 0;
        break;
    }
  }
}

/// One message a line. A terminal that cannot be edited on gets a prompt.
int chat_by_lines(ChatSession& session) {
  InputLines lines;
  const bool show_prompt = isatty(STDIN_FILENO) != 0;
  for (std::string line;;) {
    if (show_prompt) write_output(kPrompt);
    if (!lines.next(line)) break;
    if (line.ends_with('\r')) line.pop_back();
    if (!session.handle(line)) break;
  }
  return 0;
}

int chat(const ChatArgs& args) {
  const GenerateOptions options = args.sampling.resolve();
  const bool interactive = can_edit_lines();
  const std::unique_ptr<Engine> engine = open_engine(args.model);
  const int64_t context = chosen_context(args.model, *engine);
  ChatSession session(*engine, context, options, interactive, args.model.verbose);
  session.set_system(args.system);
  // While an answer is on its way, Ctrl-C stops it; only somebody who insists ends the program.
  install_interrupt_handler(interactive ? 4 : 2);
  if (!interactive) return chat_by_lines(session);
  if (!args.model.quiet) {
    if (!args.model.verbose) session.say(describe(*engine));
    session.say(fmt::format("context {} tokens; /help lists the commands, Ctrl-D ends", context));
  }
  return chat_on_terminal(session);
}

}  // namespace

void add_chat(CLI::App& root, Action& chosen) {
  CLI::App& command =
      add_subcommand(root, "chat", "Talk with a model",
                     "  kda chat MODEL\n"
                     "  kda chat MODEL --system \"Answer in one word.\" --temperature 0\n"
                     "  kda chat MODEL < questions.txt      one message a line, only the answers are printed\n"
                     "/help in the chat lists its commands. What you type is kept in\n"
                     "$XDG_STATE_HOME/kda/history or ~/.local/state/kda/history.");
  const auto args = std::make_shared<ChatArgs>();
  add_model_options(command, args->model);
  command.add_option("--system", args->system, "System prompt")->type_name("TEXT");
  add_sampling_options(command, args->sampling);
  add_draft_options(command, args->model);
  command.callback([&chosen, args] { chosen = [args] { return chat(*args); }; });
}

}  // namespace kda::cli
