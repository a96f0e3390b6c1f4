#include "cli/chat_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "arch/model_config.h"
#include "base/error.h"
#include "cli/files.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "formats/json.h"
#include "weights/checkpoint.h"

namespace kda::cli {

namespace {

struct CommandHelp {
  std::string_view name, argument, text;
};

constexpr std::array<CommandHelp, 9> kCommands = {{
    {"/help", "", "show this"},
    {"/clear", "", "forget the conversation, keep the system prompt"},
    {"/system", "[TEXT]", "show or set the system prompt; \"\" takes it away"},
    {"/retry", "", "answer the last message again"},
    {"/undo", "", "forget the last message and its answer"},
    {"/save", "FILE", "write the conversation and the options to a file"},
    {"/load", "FILE", "go on with a conversation that /save wrote"},
    {"/stats", "", "speed, tokens and memory"},
    {"/exit", "", "end (Ctrl-D does too)"},
}};

constexpr std::string_view kKeysHelp =
    "Enter sends. Alt-Enter, or \\ at the end of a line, begins a new line;\n"
    "\"\"\" begins and ends a longer text. Ctrl-C stops an answer or clears the line.\n"
    "Ctrl-R searches what you typed before. A space in front makes a message of\n"
    "a text that begins with /.";

std::string_view trim(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t\n");
  return begin == std::string_view::npos ? std::string_view()
                                         : s.substr(begin, s.find_last_not_of(" \t\n") - begin + 1);
}

std::string help_text() {
  std::string out;
  for (const CommandHelp& c : kCommands)
    out += fmt::format("{:<16} {}\n", fmt::format("{} {}", c.name, c.argument), c.text);
  return out.append(kKeysHelp);
}

/// The beginning of a text on one line.
std::string excerpt(std::string_view text) {
  constexpr int kColumns = 60;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t next = next_character(text, i);
    if (column_width(out) >= kColumns) return out + "...";
    out += text[i] == '\n' ? std::string_view(" ") : text.substr(i, next - i);
    i = next;
  }
  return out;
}

}  // namespace

std::vector<std::string> matching_commands(std::string_view prefix) {
  std::vector<std::string> out;
  if (!prefix.starts_with('/')) return out;
  for (const CommandHelp& c : kCommands) {
    if (c.name.starts_with(prefix)) out.emplace_back(c.name);
  }
  return out;
}

ChatSession::ChatSession(const Engine& engine, int64_t context, GenerateOptions options, bool interactive, bool verbose)
    : engine_(engine), options_(std::move(options)), interactive_(interactive), verbose_(verbose) {
  if (engine.chat_format() == nullptr) {
    fail(ErrorCode::kUnsupported, "this model has no chat format: continue a text with kda run --raw");
  }
  sequence_ = engine.new_sequence(context);
}

void ChatSession::say(std::string_view text) const {
  if (interactive_) {
    write_output(faint(text) + '\n');
  } else {
    write_note(text);
  }
}

bool ChatSession::handle(const std::string& typed) {
  if (trim(typed).empty()) return true;
  try {
    if (typed.starts_with('/')) {
      const std::string_view line = trim(typed);
      const size_t space = std::min(line.find_first_of(" \t\n"), line.size());
      return command(line.substr(0, space), trim(line.substr(space)));
    }
    ask(typed);
  } catch (const Error& e) {
    if (!interactive_) throw;
    say(fmt::format("error: {}", one_line(e.what())));
  }
  return true;
}

bool ChatSession::command(std::string_view name, std::string_view argument) {
  if (name == "/exit") return false;
  if (name == "/help") {
    say(help_text());
  } else if (name == "/clear") {
    conversation_.clear();
    say("The conversation is forgotten.");
  } else if (name == "/system") {
    if (argument.empty()) {
      say(conversation_.system().empty() ? "There is no system prompt." : terminal_safe(conversation_.system()));
    } else {
      conversation_.set_system(argument == "\"\"" ? std::string() : message_text(argument));
      say(conversation_.system().empty() ? "The system prompt is gone." : "The system prompt is set.");
    }
  } else if (name == "/retry") {
    retry();
  } else if (name == "/undo") {
    undo();
  } else if (name == "/save") {
    save(argument);
  } else if (name == "/load") {
    load(argument);
  } else if (name == "/stats") {
    show_stats();
  } else {
    say(fmt::format("Unknown command {}; /help lists the commands.", terminal_safe(name)));
  }
  return true;
}

void ChatSession::ask(const std::string& question) {
  conversation_.add_question(question);
  try {
    if (answer() == Outcome::kNothing) {
      conversation_.drop_turn();
      say("(stopped before the answer began; the message is not kept)");
    }
  } catch (...) {
    conversation_.drop_turn();
    throw;
  }
}

void ChatSession::retry() {
  const Conversation before = conversation_;
  if (!conversation_.drop_answer()) {
    say("There is no answer to retry.");
    return;
  }
  try {
    if (answer() == Outcome::kNothing) {
      conversation_ = before;
      say("(stopped; the former answer is kept)");
    }
  } catch (...) {
    conversation_ = before;
    throw;
  }
}

void ChatSession::undo() {
  if (conversation_.n_turns() == 0) {
    say("There is nothing to undo.");
    return;
  }
  say(fmt::format("Forgotten: {}", terminal_safe(excerpt(conversation_.drop_turn()))));
}

void ChatSession::save(std::string_view file) {
  if (file.empty()) {
    say("/save needs the name of a file.");
    return;
  }
  SavedChat chat;
  chat.model = engine_.config().name;
  chat.conversation = conversation_;
  chat.options = options_;
  write_private_file(user_path(file), save_chat(chat));
  say(fmt::format("Saved {} message{} to {}.", conversation_.messages().size(),
                  conversation_.messages().size() == 1 ? "" : "s", terminal_safe(file)));
}

void ChatSession::load(std::string_view file) {
  if (file.empty()) {
    say("/load needs the name of a file.");
    return;
  }
  const std::filesystem::path path = user_path(file);
  SavedChat chat = load_chat(read_json_file(path), path.string(), options_);
  conversation_ = std::move(chat.conversation);
  options_ = std::move(chat.options);
  n_answers_ = 0;
  const size_t n = conversation_.messages().size();
  say(fmt::format("Loaded {} message{} and the options from {}.", n, n == 1 ? "" : "s", terminal_safe(file)));
}

void ChatSession::show_stats() const {
  const MemoryPlan plan = sequence_->memory_plan();
  const SamplerOptions& s = options_.sampling;
  std::string out = describe(engine_) + '\n';
  out += fmt::format("conversation: {} turn{}; context: {} of {} tokens used\n", conversation_.n_turns(),
                     conversation_.n_turns() == 1 ? "" : "s", sequence_->size(), sequence_->context());
  if (n_answers_ > 0) out += fmt::format("last answer: {}\n", timings_line(last_));
  out += fmt::format("memory: weights {} mapped, {} owned; state {}, latent cache {}, scratch {}\n",
                     human_bytes(plan.weights_mapped), human_bytes(plan.weights_owned), human_bytes(plan.kda_state),
                     human_bytes(plan.latent_cache), human_bytes(plan.scratch));
  out += fmt::format("sampling: temperature {}, top-p {}, top-k {}, min-p {}, seed {}", s.temperature, s.top_p, s.top_k,
                     s.min_p, s.seed);
  say(out);
}

ChatSession::Outcome ChatSession::answer() {
  engine_.checkpoint().check_unchanged();
  RenderedPrompt prompt = engine_.chat_format()->render(conversation_.messages(), true);
  reuse_sampled_ids(prompt, conversation_.messages(), conversation_.sampled(), engine_.tokenizer());
  const int64_t context = sequence_->context();
  if (static_cast<int64_t>(prompt.ids.size()) > context) {
    fail(ErrorCode::kLimit,
         "the conversation has {} tokens, but the context holds {}: /undo or /clear make room, --ctx at the start "
         "makes it longer",
         prompt.ids.size(), context);
  }

  if (interactive_) clear_interrupt();
  Progress progress("reading", interactive_);
  GenerateCallbacks callbacks;
  callbacks.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total);
    return !interrupted();
  };
  callbacks.keep_going = [&] {
    progress.clear();
    return !interrupted();
  };
  const bool to_terminal = isatty(STDOUT_FILENO) != 0;
  callbacks.text = [&](std::string_view piece) {
    write_output(to_terminal ? terminal_safe(piece) : std::string(piece));
  };
  GenerateOptions options = options_;
  options.sampling.seed += n_answers_;  // another answer on /retry, the same chat for the same --seed
  Generation g = generate(*sequence_, engine_.tokenizer(), prompt.ids, prompt.borders, options, callbacks);
  progress.clear();

  const bool stopped = g.finish_reason == FinishReason::kInterrupted;
  if (stopped && !interactive_) {
    write_output("\n");
    fail(ErrorCode::kInterrupted, "interrupted");
  }
  if (stopped && g.text.empty()) return Outcome::kNothing;
  if (!g.text.ends_with('\n')) write_output("\n");
  if (stopped) say("(stopped)");
  if (g.context_full)
    say(fmt::format("(the context of {} tokens is full: /clear starts anew, --ctx at the start makes it longer)",
                    context));
  if (g.finish_reason == FinishReason::kLength && !g.context_full && interactive_) say("(cut off by --max-tokens)");
  if (verbose_) say(timings_line(g));
  conversation_.add_answer(g.text, g.ids);
  ++n_answers_;
  last_ = std::move(g);
  return Outcome::kAnswered;
}

}  // namespace kda::cli
