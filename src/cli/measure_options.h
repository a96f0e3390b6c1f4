// What the commands that measure models on a text share.
#pragma once

#include <string>
#include <string_view>

#include "cli/options.h"
#include "formats/json.h"
#include "measure/meters.h"
#include "measure/text_chunks.h"

namespace kda::cli {

struct TextArgs {
  std::string file;  // "-": standard input
  bool special = false;
  int64_t n_ctx = 512;
  int64_t max_chunks = 0;  // 0: all
};

/// -f, --special, --ctx and --chunks. Returns -f, so that a command can require it, and --ctx.
struct TextOptions {
  CLI::Option* file;
  CLI::Option* n_ctx;
};
TextOptions add_text_options(CLI::App& command, TextArgs& args);

/// The model, its warnings told to standard error.
[[nodiscard]] std::unique_ptr<Engine> open_measured(const std::string& model, const EngineOptions& options);

/// The text as chunks. As llama.cpp does, a line break at the very end does not count. Throws as read_text_file,
/// chunk_text and Engine::tokenizer.
[[nodiscard]] TextChunks read_chunks(const Engine& engine, const TextArgs& args);

/// Throws Error(kFormat) when `chunks`, made by `model`, has other tokens than `expected`.
void check_same_tokens(const TextChunks& chunks, const std::string& model, const TextChunks& expected,
                       const std::string& base);

/// Runs work(progress) with a progress bar. An interrupt stops it: Error(kInterrupted).
void with_progress(const std::string& label, const std::function<void(const FeedProgress&)>& work);

/// {"value": x, "error": e}; numbers that do not exist (the error of one token) become null.
[[nodiscard]] OrderedJson to_json(const Estimate& estimate);
/// "12.3456 +/- 0.0123", in as many digits as the error tells.
[[nodiscard]] std::string to_text(const Estimate& estimate);

}  // namespace kda::cli
