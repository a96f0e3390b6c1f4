#include "cli/options.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <random>

#include "arch/model_config.h"
#include "cli/files.h"
#include "cli/output.h"

namespace kda::cli {

namespace {

/// What is wrong with it; empty: nothing.
std::string whole_number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("expected a whole number from 0 to {}, found '{}'", std::numeric_limits<uint64_t>::max(), text);
}

}  // namespace

CLI::Validator in_range(int64_t least, int64_t most) { return CLI::Range(least, most).description(""); }

GenerateOptions SamplingArgs::resolve() const {
  GenerateOptions out = generate;
  out.sampling.seed = seed ? *seed : std::random_device{}();
  validate(out.sampling);
  return out;
}

CLI::App& add_subcommand(CLI::App& root, const std::string& name, const std::string& description,
                         const std::string& examples) {
  CLI::App* command = root.add_subcommand(name, description);
  command->footer("Examples:\n" + examples);
  return *command;
}

void add_model_argument(CLI::App& command, std::string& model) {
  command
      .add_option("MODEL", model, "GGUF file, Hugging Face folder, or org/name[:label] in the local Hugging Face cache")
      ->required();
}

void add_isa_option(CLI::App& command, EngineOptions& engine) {
  command.add_option("--isa", engine.isa, "Instruction set: auto, scalar, avx2, avx512 (default: auto)")
      ->envname("KDA_ISA")
      ->type_name("NAME");
}

void add_threads_prompt_option(CLI::App& command, EngineOptions& engine) {
  command
      .add_option("--threads-prompt", engine.threads_prompt,
                  fmt::format("Threads for batches of more than {} tokens (default: as --threads)", kMaxGuesses + 1))
      ->check(in_range(1, kMaxThreads))
      ->type_name("N");
}

void add_engine_options(CLI::App& command, EngineOptions& engine) {
  command.add_option("--threads,-t", engine.threads, kThreadsHelp)->check(in_range(1, kMaxThreads))->type_name("N");
  add_threads_prompt_option(command, engine);
  add_isa_option(command, engine);
  command
      .add_option("--batch", engine.batch_tokens,
                  fmt::format("Prompt tokens that go through the layers together (default: {})", engine.batch_tokens))
      ->check(in_range(1, kMaxBatchTokens))
      ->type_name("N");
}

void add_model_options(CLI::App& command, ModelArgs& args) {
  add_model_argument(command, args.model);
  command
      .add_option("--ctx,-c", args.context,
                  "Tokens that prompt and answer may have together (default: the model's, at most 8192)")
      ->check(in_range(1, kMaxContext))
      ->type_name("N");
  add_engine_options(command, args.engine);
  CLI::Option* quiet = command.add_flag("--quiet,-q", args.quiet, "No timings and no warnings");
  command.add_flag("--verbose,-v", args.verbose, "Say more on standard error")->excludes(quiet);
}

void add_draft_options(CLI::App& command, ModelArgs& args) {
  const std::string group = "Answer";
  CLI::Option* draft = command
                           .add_option("--draft", args.draft,
                                       "Guess tokens from earlier text and check several in one pass: none or ngram "
                                       "(default: none); the answer stays the same")
                           ->check(CLI::IsMember({"none", "ngram"}).description(""))
                           ->type_name("NAME")
                           ->group(group);
  command
      .add_option("--draft-max", args.draft_max,
                  fmt::format("Most tokens guessed at a time (default: {})", args.draft_max))
      ->check(in_range(1, kMaxGuesses))
      ->needs(draft)
      ->type_name("N")
      ->group(group);
}

void add_sampling_options(CLI::App& command, SamplingArgs& args) {
  SamplerOptions& s = args.generate.sampling;
  const std::string group = "Answer";
  command
      .add_option("--max-tokens,-n", args.generate.max_tokens,
                  "Most tokens to generate (default: until the model ends)")
      ->check(in_range(0, kMaxContext))
      ->type_name("N")
      ->group(group);
  command.add_option("--stop", args.generate.stop, "End before this text; may be given several times")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->group(group);
  command.add_flag("--ignore-eos", args.generate.ignore_eos, "Go on where the model would end")->group(group);
  command.add_option("--seed", args.seed, "Random seed (default: a new one each time)")
      ->check(CLI::Validator(whole_number, ""))
      ->type_name("N")
      ->group(group);
  const auto add_float = [&](const char* name, float& value, const char* text) {
    command.add_option(name, value, fmt::format("{} (default: {})", text, value))->type_name("X")->group(group);
  };
  add_float("--temperature", s.temperature, "0: always the likeliest token");
  command.add_option("--top-k", s.top_k, "Choose among the K likeliest; 0: off (default: 0)")
      ->type_name("K")
      ->group(group);
  add_float("--top-p", s.top_p, "Choose among the likeliest with this share together; 1: off");
  add_float("--min-p", s.min_p, "Least share of the likeliest token's probability; 0: off");
  add_float("--repeat-penalty", s.repeat_penalty, "Weaken tokens seen, by a factor; 1: off");
  add_float("--presence-penalty", s.presence_penalty, "Weaken tokens seen, once; 0: off");
  add_float("--frequency-penalty", s.frequency_penalty, "Weaken tokens seen, each time; 0: off");
}

std::string describe(const Engine& engine) {
  const ModelConfig& c = engine.config();
  const int threads = engine.n_threads();
  const int for_prompts = engine.n_threads(kMaxBatchTokens);
  return fmt::format("{}: {} layers, hidden size {}, vocabulary {}; {} thread{}{}, {} kernels",
                     c.name.empty() ? c.architecture : c.name, c.n_layers(), c.hidden_size, c.vocab_size, threads,
                     threads == 1 ? "" : "s",
                     for_prompts == threads ? "" : fmt::format(", {} for prompts", for_prompts), engine.isa());
}

std::unique_ptr<Engine> open_engine(const ModelArgs& args) {
  EngineOptions options = args.engine;
  options.max_guesses = args.draft == "ngram" ? args.draft_max : 0;
  std::unique_ptr<Engine> engine = Engine::open(args.model, options, environment);
  if (!args.quiet) {
    for (const std::string& warning : engine->warnings()) write_warning(warning);
  }
  if (args.verbose) write_note(faint(describe(*engine)));
  return engine;
}

int64_t chosen_context(const ModelArgs& args, const Engine& engine) {
  return args.context > 0 ? args.context : engine.default_context();
}

std::string timings_line(const Generation& g) {
  const std::string cached = g.cached_tokens > 0 ? fmt::format(" ({} cached)", g.cached_tokens) : "";
  const std::string prompt =
      g.prompt_tokens > g.cached_tokens ? fmt::format(", {:.1f} tokens/s", g.prompt_tokens_per_second()) : "";
  const std::string answer = g.steps > 0 ? fmt::format(", {:.1f} tokens/s", g.generation_tokens_per_second()) : "";
  const std::string guesses = g.guesses > 0 ? fmt::format(", {} of {} guesses right", g.right_guesses, g.guesses) : "";
  return fmt::format("prompt: {} tokens{}{}; answer: {} tokens{}{}", g.prompt_tokens, cached, prompt, g.ids.size(),
                     answer, guesses);
}

}  // namespace kda::cli
