// Options that several subcommands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/generate.h"

namespace kda::cli {

/// What a parsed command line asks for: runs the subcommand, gives the exit status.
using Action = std::function<int()>;

/// Which model, and how the engine runs it.
struct ModelArgs {
  std::string model;
  EngineOptions engine;
  int64_t context = 0;  // 0: Engine::default_context
  std::string draft = "none";
  int64_t draft_max = kMaxGuesses;
  bool quiet = false;
  bool verbose = false;
};

/// How the next token is chosen and when to end.
struct SamplingArgs {
  GenerateOptions generate;
  std::optional<uint64_t> seed;  // unset: drawn

  /// The options with a seed, checked. Throws Error(kUsage).
  [[nodiscard]] GenerateOptions resolve() const;
};

/// Most tokens of context that can be asked for.
inline constexpr int64_t kMaxContext = int64_t{1} << 27;
inline constexpr int64_t kMaxThreads = 1024;
inline constexpr const char* kThreadsHelp = "Threads to compute with (default: one a core)";

/// Refuses numbers outside; the help does not repeat the limits.
[[nodiscard]] CLI::Validator in_range(int64_t least, int64_t most);

/// A subcommand with a description and examples under its help.
CLI::App& add_subcommand(CLI::App& root, const std::string& name, const std::string& description,
                         const std::string& examples);

/// MODEL.
void add_model_argument(CLI::App& command, std::string& model);
/// --isa.
void add_isa_option(CLI::App& command, EngineOptions& engine);
/// --threads-prompt.
void add_threads_prompt_option(CLI::App& command, EngineOptions& engine);
/// --threads, --threads-prompt, --isa, --batch.
void add_engine_options(CLI::App& command, EngineOptions& engine);
/// MODEL, --ctx, --quiet, --verbose and the engine's options.
void add_model_options(CLI::App& command, ModelArgs& args);
/// --draft, --draft-max.
void add_draft_options(CLI::App& command, ModelArgs& args);
/// --temperature and so on, --max-tokens, --stop, --ignore-eos, --seed.
void add_sampling_options(CLI::App& command, SamplingArgs& args);

/// --isa, threads and the rest in one line, for --verbose.
[[nodiscard]] std::string describe(const Engine& engine);

/// Opens a model and tells of its warnings unless quiet. Throws as Engine::open.
[[nodiscard]] std::unique_ptr<Engine> open_engine(const ModelArgs& args);

/// The context to use: what the user said, or the default.
[[nodiscard]] int64_t chosen_context(const ModelArgs& args, const Engine& engine);

/// "prompt: 12 tokens (4 cached), ...", for people.
[[nodiscard]] std::string timings_line(const Generation& generation);

}  // namespace kda::cli
