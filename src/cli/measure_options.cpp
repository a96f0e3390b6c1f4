#include "cli/measure_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arch/model_config.h"
#include "base/error.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "tokenizer/tokenizer.h"

namespace kda::cli {

namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

TextOptions add_text_options(CLI::App& command, TextArgs& args) {
  TextOptions out{};
  out.file = command.add_option("--file,-f", args.file, "The text, as it is (-: standard input)")->type_name("TEXT");
  command.add_flag("--special", args.special, "Names of control tokens in the text stand for these tokens");
  out.n_ctx = command.add_option("--ctx,-c", args.n_ctx, "Tokens a chunk (default: 512)")
                  ->check(in_range(kMinChunkTokens, kMaxContext))
                  ->type_name("N");
  command.add_option("--chunks", args.max_chunks, "Take only the first N chunks")
      ->check(in_range(1, kMaxContext))
      ->type_name("N");
  return out;
}

std::unique_ptr<Engine> open_measured(const std::string& model, const EngineOptions& options) {
  std::unique_ptr<Engine> engine = Engine::open(model, options, environment);
  for (const std::string& warning : engine->warnings()) write_warning(warning);
  return engine;
}

TextChunks read_chunks(const Engine& engine, const TextArgs& args) {
  std::string text = args.file == "-" ? read_input(kMaxTextBytes) : read_text_file(args.file, kMaxTextBytes);
  if (text.ends_with('\n')) text.pop_back();
  return chunk_text(engine.tokenizer(), text, args.special, args.n_ctx, args.max_chunks);
}

void check_same_tokens(const TextChunks& chunks, const std::string& model, const TextChunks& expected,
                       const std::string& base) {
  const auto [found, other] = std::ranges::mismatch(chunks.ids, expected.ids);
  if (found == chunks.ids.end() && other == expected.ids.end()) return;
  const auto name = [](const auto& at, const TextChunks& of) {
    return at == of.ids.end() ? std::string("the end") : std::to_string(*at);
  };
  fail(ErrorCode::kFormat, "{}: reads the text as other tokens than {}: token {} is {}, expected {}", model, base,
       found - chunks.ids.begin(), name(found, chunks), name(other, expected));
}

void with_progress(const std::string& label, const std::function<void(const FeedProgress&)>& work) {
  Progress progress(label);
  work([&](int64_t done, int64_t total) {
    progress.update(done, total);
    return !interrupted();
  });
  if (interrupted()) fail(ErrorCode::kInterrupted, "interrupted");
}

OrderedJson to_json(const Estimate& estimate) {
  OrderedJson out;
  out["value"] = estimate.value;
  out["error"] = estimate.error;
  return out;
}

std::string to_text(const Estimate& estimate) {
  // Two digits of the error, and the value as far.
  const bool known = std::isfinite(estimate.error) && estimate.error > 0;
  const int digits = known ? std::clamp(1 - static_cast<int>(std::floor(std::log10(estimate.error))), 2, 9) : 6;
  return std::isfinite(estimate.error)
             ? fmt::format("{:.{}f} +/- {:.{}f}", estimate.value, digits, estimate.error, digits)
             : fmt::format("{:.{}f}", estimate.value, digits);
}

}  // namespace kda::cli
