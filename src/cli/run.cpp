#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "arch/model_config.h"
#include "base/error.h"
#include "chat/chat_format.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "tokenizer/tokenizer.h"

namespace kda::cli {

namespace {

struct RunArgs {
  ModelArgs model;
  SamplingArgs sampling;
  std::string prompt;
  bool prompt_given = false;
  bool raw = false;
  std::string system;
  bool special = false;
  bool json = false;
};

/// PROMPT, or standard input where there is none. One line break at the end of the input is not part of it.
std::string read_prompt(const RunArgs& args) {
  if (args.prompt_given && args.prompt != "-") return args.prompt;
  if (!args.prompt_given && isatty(STDIN_FILENO) != 0) {
    fail(ErrorCode::kUsage, "no prompt: give one as PROMPT or on standard input, or talk with kda chat");
  }
  std::string text = read_input();
  if (text.ends_with('\n')) {
    text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
  }
  return text;
}

struct Prompt {
  std::vector<int32_t> ids;
  std::vector<int64_t> borders;
};

Prompt encode_prompt(const RunArgs& args, const Engine& engine, const std::string& text) {
  const ChatFormat* chat = engine.chat_format();
  const Tokenizer& tokenizer = engine.tokenizer();
  if (args.raw || chat == nullptr) {
    if (!args.system.empty()) {
      fail(ErrorCode::kUsage, "--system needs a chat turn, but {}",
           args.raw ? "--raw asks for plain text" : "this model has no chat format");
    }
    if (!args.raw) write_warning("this model has no chat format: the prompt is continued as plain text, as with --raw");
    return {tokenizer.encode(text, args.special), {}};
  }
  std::vector<ChatMessage> messages;
  if (!args.system.empty()) messages.push_back(make_message("system", args.system));
  messages.push_back(make_message("user", text));
  RenderedPrompt rendered = chat->render(messages, true);
  if (args.special) return {tokenizer.encode(rendered.text, true), {}};
  return {std::move(rendered.ids), std::move(rendered.borders)};
}

OrderedJson to_json(const Generation& g, const std::string& model, uint64_t seed, double load_ms) {
  OrderedJson timings;
  timings["load_ms"] = load_ms;
  timings["prompt_ms"] = g.prompt_ms;
  timings["prompt_tokens_per_second"] = g.prompt_tokens_per_second();
  timings["generation_ms"] = g.generation_ms;
  timings["generation_tokens_per_second"] = g.generation_tokens_per_second();
  if (g.guesses > 0) {
    timings["guesses"] = g.guesses;
    timings["right_guesses"] = g.right_guesses;
  }
  OrderedJson out;
  out["model"] = model;
  out["text"] = g.text;
  out["finish_reason"] = finish_reason_name(g.finish_reason);
  out["prompt_tokens"] = g.prompt_tokens;
  out["completion_tokens"] = g.ids.size();
  out["cached_tokens"] = g.cached_tokens;
  out["seed"] = seed;
  out["timings"] = timings;
  return out;
}

int run(const RunArgs& args) {
  const GenerateOptions options = args.sampling.resolve();
  const std::string text = read_prompt(args);

  const auto load_begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Engine> engine = open_engine(args.model);
  const double load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - load_begin).count();
  const Prompt prompt = encode_prompt(args, *engine, text);
  if (prompt.ids.empty()) fail(ErrorCode::kUsage, "the prompt is empty");
  const int64_t context = chosen_context(args.model, *engine);
  if (static_cast<int64_t>(prompt.ids.size()) > context) {
    fail(ErrorCode::kLimit, "the prompt has {} tokens, but the context holds {}: shorten it, or raise --ctx",
         prompt.ids.size(), context);
  }
  const std::unique_ptr<Sequence> sequence = engine->new_sequence(context);
  install_interrupt_handler(2);
  if (args.model.verbose) {
    write_note(
        faint(fmt::format("loaded in {:.0f} ms; context {} tokens, {} of memory beside the weights; seed {}", load_ms,
                          context, human_bytes(sequence->memory_plan().total_anonymous()), options.sampling.seed)));
  }

  const bool to_terminal = isatty(STDOUT_FILENO) != 0;
  Progress progress("reading the prompt", !args.model.quiet);
  GenerateCallbacks callbacks;
  callbacks.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total);
    return !interrupted();
  };
  callbacks.keep_going = [&] {
    progress.clear();
    return !interrupted();
  };
  if (!args.json) {
    callbacks.text = [&](std::string_view piece) {
      write_output(to_terminal ? terminal_safe(piece) : std::string(piece));
    };
  }
  const Generation g = generate(*sequence, engine->tokenizer(), prompt.ids, prompt.borders, options, callbacks);
  progress.clear();

  if (args.json) {
    const std::string& name = engine->config().name;
    write_output(json_text(to_json(g, name.empty() ? args.model.model : name, options.sampling.seed, load_ms)) + '\n');
  } else if (!g.text.ends_with('\n')) {
    write_output("\n");
  }
  if (!args.model.quiet) {
    if (g.context_full) write_warning(fmt::format("the context of {} tokens is full; --ctx makes it longer", context));
    write_note(faint(timings_line(g)));
  }
  if (g.finish_reason == FinishReason::kInterrupted) fail(ErrorCode::kInterrupted, "interrupted");
  return 0;
}

}  // namespace

void add_run(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "run", "Answer one prompt, or continue a text",
                                     "  kda run MODEL \"What is 27+15?\"\n"
                                     "  kda run MODEL --temperature 0 --json < question.txt\n"
                                     "  kda run MODEL --raw --max-tokens 64 \"Once upon a time\"\n"
                                     "Only the answer goes to standard output.");
  const auto args = std::make_shared<RunArgs>();
  add_model_options(command, args->model);
  CLI::Option* prompt = command.add_option("PROMPT", args->prompt, "The prompt; - or none: standard input");
  CLI::Option* raw = command.add_flag("--raw", args->raw, "Continue the text as it is, without the chat format");
  command.add_option("--system", args->system, "System prompt")->type_name("TEXT")->excludes(raw);
  command.add_flag("--special", args->special, "Names of control tokens in the prompt become these tokens");
  command.add_flag("--json", args->json, "One JSON object with text, counts and timings on standard output");
  add_sampling_options(command, args->sampling);
  add_draft_options(command, args->model);
  command.callback([&chosen, args, prompt] {
    args->prompt_given = prompt->count() > 0;
    chosen = [args] { return run(*args); };
  });
}

}  // namespace kda::cli
