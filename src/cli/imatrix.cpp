#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/measure_options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "formats/atomic_file.h"
#include "measure/importance_collector.h"

namespace kda::cli {

namespace {

struct ImatrixArgs {
  std::string model;
  EngineOptions engine;
  TextArgs text;
  std::string out;
  bool json = false;
};

ImportanceMatrix collect(const Engine& engine, const TextArgs& text, const TextChunks& chunks) {
  ImportanceCollector collector(engine.checkpoint());
  const auto sequence = engine.new_sequence(chunks.n_ctx);
  with_progress("reading the text", [&](const FeedProgress& progress) {
    const int64_t total = chunks.n_chunks * chunks.n_ctx;
    for (int64_t c = 0; c < chunks.n_chunks; ++c) {
      sequence->clear();
      // Logits are computed, for what the output matrix reads, and left unused.
      sequence->feed_all_logits(
          chunks.chunk(c), [](int64_t, std::span<const float>) {}, &collector,
          [&](int64_t done, int64_t) { return progress(c * chunks.n_ctx + done, total); });
    }
  });
  ImportanceMatrix matrix;
  collector.add_to(matrix);
  matrix.datasets = {text.file == "-" ? "standard input" : text.file};
  matrix.n_chunks = chunks.n_chunks;
  matrix.chunk_tokens = chunks.n_ctx;
  return matrix;
}

int imatrix(const ImatrixArgs& args) {
  install_interrupt_handler(2);
  const std::unique_ptr<Engine> engine = open_measured(args.model, args.engine);
  const TextChunks chunks = read_chunks(*engine, args.text);
  { const AtomicFile writable(args.out); }  // a place that cannot be written to is known before the work
  const ImportanceMatrix matrix = collect(*engine, args.text, chunks);
  matrix.write(args.out);

  const std::vector<ImportanceMatrix::Gap> gaps = matrix.gaps();
  if (args.json) {
    OrderedJson json;
    json["model"] = args.model;
    json["text"] = args.text.file;
    json["output"] = args.out;
    json["ctx"] = chunks.n_ctx;
    json["chunks"] = chunks.n_chunks;
    json["tensors"] = matrix.n_tensors();
    json["without_data"] = OrderedJson::array();
    for (const ImportanceMatrix::Gap& gap : gaps) {
      json["without_data"].push_back({{"tensor", gap.tensor}, {"experts", gap.matrices}, {"of", gap.n_matrices}});
    }
    write_output(json_text(json, 2) + '\n');
    return 0;
  }
  std::string lines = fmt::format("{}: {} tensors from {} chunks of {} tokens\n", args.out, matrix.n_tensors(),
                                  chunks.n_chunks, chunks.n_ctx);
  for (const ImportanceMatrix::Gap& gap : gaps) {
    lines += fmt::format("{}: no data for {} of {} experts, which count as weight 1: {}\n", gap.tensor,
                         gap.matrices.size(), gap.n_matrices, fmt::join(gap.matrices, ", "));
  }
  write_output(lines);
  return 0;
}

}  // namespace

void add_imatrix(CLI::App& root, Action& chosen) {
  CLI::App& command =
      add_subcommand(root, "imatrix", "Collect which inputs of each tensor matter on a text, for quantising",
                     "  kda imatrix MODEL -f calibration.txt -o imatrix.gguf\n"
                     "  kda imatrix MODEL -f chats.txt --special -o imatrix.gguf --chunks 200\n"
                     "The file has the GGUF form that llama.cpp reads as well. Experts that no token chose count as\n"
                     "weight 1 and are listed.");
  const auto args = std::make_shared<ImatrixArgs>();
  add_model_argument(command, args->model);
  add_text_options(command, args->text).file->required();
  command.add_option("--output,-o", args->out, "Where the matrix goes")->required()->type_name("FILE.gguf");
  command.add_flag("--exact", args->engine.exact_activations, "Keep activations in fp32 for quantised weights too");
  command.add_flag("--json", args->json, "One JSON object about what was written");
  add_engine_options(command, args->engine);
  command.callback([&chosen, args] { chosen = [args] { return imatrix(*args); }; });
}

}  // namespace kda::cli
