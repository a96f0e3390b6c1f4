// kda perplexity and kda compare.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "arch/model_config.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/measure_options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "measure/logits_file.h"
#include "measure/score_text.h"

namespace kda::cli {

namespace {

struct PerplexityArgs {
  std::string model;
  EngineOptions engine;
  TextArgs text;
  bool n_ctx_given = false;
  std::string save;
  std::string base;
  bool json = false;
};

struct CompareArgs {
  std::string base, model;
  EngineOptions engine;
  TextArgs text;
  bool json = false;
};

/// Results as lines for people, or as JSON.
class Report {
 public:
  Report(const TextArgs& text, const TextChunks& chunks) {
    if (!text.file.empty()) json_["text"] = text.file;
    json_["ctx"] = chunks.n_ctx;
    json_["chunks"] = chunks.n_chunks;
    json_["scored_tokens"] = chunks.n_scored();
    line("text", fmt::format("{} chunks of {} tokens, {} scored", chunks.n_chunks, chunks.n_ctx, chunks.n_scored()));
  }

  void add_model(const std::string& role, const std::string& model, const PerplexityMeter& meter) {
    OrderedJson entry;
    entry["model"] = model;
    entry["perplexity"] = to_json(meter.perplexity());
    entry["loss"] = to_json(meter.loss());
    if (role.empty()) {
      json_.update(entry);
    } else {
      json_[role] = entry;
    }
    line(role.empty() ? "perplexity" : "perplexity, " + role, to_text(meter.perplexity()));
  }

  void add(const DivergenceMeter& meter) {
    json_["perplexity_ratio"] = to_json(meter.perplexity_ratio());
    OrderedJson kl = to_json(meter.mean());
    kl["median"] = meter.quantile(0.5);
    kl["p999"] = meter.quantile(0.999);
    kl["max"] = meter.largest();
    json_["kl_divergence"] = kl;
    json_["same_top"] = to_json(meter.same_top());
    line("perplexity / base", to_text(meter.perplexity_ratio()));
    line("KL divergence, mean", to_text(meter.mean()) + " nats");
    line("  median", fmt::format("{:.6f}", meter.quantile(0.5)));
    line("  99.9 %", fmt::format("{:.6f}", meter.quantile(0.999)));
    line("  largest", fmt::format("{:.6f}", meter.largest()));
    const Estimate same = meter.same_top();
    line("same top token", to_text({100 * same.value, 100 * same.error}) + " %");
  }

  void write(bool as_json) const { write_output(as_json ? json_text(json_, 2) + '\n' : lines_); }

 private:
  void line(std::string_view label, std::string_view value) { lines_ += fmt::format("{:<20}  {}\n", label, value); }

  OrderedJson json_;
  std::string lines_;
};

/// The text of the base, of which at most max_chunks chunks are taken.
TextChunks chunks_of_base(const LogitsFile& base, const PerplexityArgs& args, const Engine& engine) {
  TextChunks chunks = base.chunks();
  if (base.vocab() != engine.config().vocab_size) {
    fail(ErrorCode::kFormat, "{}: holds {} logits a token, expected {} as {} has", args.base, base.vocab(),
         engine.config().vocab_size, args.model);
  }
  if (args.n_ctx_given && args.text.n_ctx != chunks.n_ctx) {
    fail(ErrorCode::kUsage, "--ctx: {} asked for, expected {} as {} has", args.text.n_ctx, chunks.n_ctx, args.base);
  }
  if (args.text.max_chunks > 0 && args.text.max_chunks < chunks.n_chunks) {
    chunks.n_chunks = args.text.max_chunks;
    chunks.ids.resize(static_cast<size_t>(chunks.n_chunks * chunks.n_ctx));
  }
  if (args.text.file.empty()) return chunks;
  TextArgs as_base = args.text;
  as_base.n_ctx = chunks.n_ctx;
  as_base.max_chunks = chunks.n_chunks;
  check_same_tokens(read_chunks(engine, as_base), args.model, chunks, args.base);
  return chunks;
}

int perplexity(const PerplexityArgs& args) {
  install_interrupt_handler(2);
  const std::unique_ptr<Engine> engine = open_measured(args.model, args.engine);
  std::optional<LogitsFile> base;
  if (!args.base.empty()) base = LogitsFile::open(args.base);
  const TextChunks chunks = base ? chunks_of_base(*base, args, *engine) : read_chunks(*engine, args.text);
  std::optional<LogitsWriter> save;
  if (!args.save.empty()) save.emplace(args.save, chunks, engine->config().vocab_size);

  PerplexityMeter base_meter, meter;
  DivergenceMeter divergence;
  int64_t n = 0;
  with_progress("reading the text", [&](const FeedProgress& progress) {
    score_text(
        *engine, chunks,
        [&](const ScoredRow& row, int32_t next) {
          meter.add(row, next);
          if (save) save->add(row.logits);
          if (!base) return;
          const ScoredRow base_row = score_row(base->row(n++));
          base_meter.add(base_row, next);
          divergence.add(base_row, row, next);
        },
        progress);
  });
  if (save) save->commit();
  Report report(args.text, chunks);
  report.add_model("", args.model, meter);
  if (base) {
    report.add_model("base", args.base, base_meter);
    report.add(divergence);
  }
  report.write(args.json);
  return 0;
}

int compare(const CompareArgs& args) {
  install_interrupt_handler(2);
  const std::unique_ptr<Engine> base = open_measured(args.base, args.engine);
  const std::unique_ptr<Engine> engine = open_measured(args.model, args.engine);
  if (base->config().vocab_size != engine->config().vocab_size) {
    fail(ErrorCode::kUsage, "{}: has {} tokens, expected {} as {} has", args.model, engine->config().vocab_size,
         base->config().vocab_size, args.base);
  }
  const TextChunks chunks = read_chunks(*base, args.text);
  if (args.text.file != "-") check_same_tokens(read_chunks(*engine, args.text), args.model, chunks, args.base);

  PerplexityMeter base_meter, meter;
  DivergenceMeter divergence;
  with_progress("reading the text", [&](const FeedProgress& progress) {
    score_text(
        *base, *engine, chunks,
        [&](const ScoredRow& base_row, const ScoredRow& row, int32_t next) {
          base_meter.add(base_row, next);
          meter.add(row, next);
          divergence.add(base_row, row, next);
        },
        progress);
  });
  Report report(args.text, chunks);
  report.add_model("A", args.base, base_meter);
  report.add_model("B", args.model, meter);
  report.add(divergence);
  report.write(args.json);
  return 0;
}

void add_run_options(CLI::App& command, EngineOptions& engine, bool& json) {
  command.add_flag("--exact", engine.exact_activations, "Keep activations in fp32 for quantised weights too");
  command.add_flag("--json", json, "One JSON object");
  add_engine_options(command, engine);
}

}  // namespace

void add_perplexity(CLI::App& root, Action& chosen) {
  CLI::App& command =
      add_subcommand(root, "perplexity", "Measure how well a model expects a text, and how far it is from another",
                     "  kda perplexity MODEL -f wiki.test.raw\n"
                     "  kda perplexity BIG -f wiki.test.raw --chunks 50 --save-logits big.logits\n"
                     "  kda perplexity SMALL --kl-divergence big.logits --json\n"
                     "Each chunk is a prompt of its own, of which the second half is scored. A file of logits takes 4\n"
                     "bytes times the vocabulary a scored token; `kda compare` needs none.");
  const auto args = std::make_shared<PerplexityArgs>();
  add_model_argument(command, args->model);
  const TextOptions text = add_text_options(command, args->text);
  CLI::Option* save =
      command.add_option("--save-logits", args->save, "Keep the logits to compare with later")->type_name("FILE");
  CLI::Option* base = command
                          .add_option("--kl-divergence", args->base,
                                      "Also compare with the logits kept in FILE, whose text is taken (-f, if given, "
                                      "must be the same)")
                          ->type_name("FILE");
  save->excludes(base);
  add_run_options(command, args->engine, args->json);
  command.callback([&chosen, args, text] {
    if (args->text.file.empty() && args->base.empty()) throw CLI::RequiredError("--file or --kl-divergence");
    args->n_ctx_given = text.n_ctx->count() > 0;
    chosen = [args] { return perplexity(*args); };
  });
}

void add_compare(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "compare", "Measure how far model B is from model A on a text",
                                     "  kda compare BF16.gguf Q4_K_M.gguf -f wiki.test.raw\n"
                                     "  kda compare A B -f wiki.test.raw --chunks 50 --json\n"
                                     "Both are loaded and take turns; the divergence is that of B from A, in nats.");
  const auto args = std::make_shared<CompareArgs>();
  command.add_option("A", args->base, "The model to compare with: a file, folder or name, as for the other commands")
      ->required();
  command.add_option("B", args->model, "The model to judge")->required();
  add_text_options(command, args->text).file->required();
  add_run_options(command, args->engine, args->json);
  command.callback([&chosen, args] { chosen = [args] { return compare(*args); }; });
}

}  // namespace kda::cli
