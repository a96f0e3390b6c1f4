#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/parse_numbers.h"
#include "cli/terminal.h"
#include "measure/benchmark.h"

namespace kda::cli {

namespace {

constexpr int64_t kMaxSequences = 1024;

struct BenchArgs {
  std::string model;
  std::string prompts = "512", generations = "32", sequences = "1", edits = "0", depths = "0", batches, threads;
  int64_t repetitions = 3;
  bool no_warm_up = false;
  std::string output = "table";
  EngineOptions engine;
};

/// What BenchArgs say, as numbers.
struct BenchPlan {
  std::vector<BenchTest> prompts, generations;  // by depth; generations with what is measured like them
  std::vector<int64_t> batches, threads;
  int64_t context = 1;
};

BenchPlan make_plan(const BenchArgs& args) {
  std::vector<int64_t> depths = parse_numbers(args.depths, "--depth", 0, kMaxContext);
  std::ranges::sort(depths);  // each is reached from the one before
  BenchPlan plan;
  const auto add = [&](std::vector<BenchTest>& tests, const BenchTest& test, const std::string& option) {
    if (test.n_tokens == 0) return;
    if (test.context() > kMaxContext) {
      fail(ErrorCode::kUsage, "{}: {} needs a context of {} tokens, expected at most {}", option, test.name(),
           test.context(), kMaxContext);
    }
    tests.push_back(test);
    plan.context = std::max(plan.context, test.context());
  };
  const std::vector<int64_t> prompts = parse_numbers(args.prompts, "--prompt", 0, kMaxContext);
  const std::vector<int64_t> generations = parse_numbers(args.generations, "--generate", 0, kMaxContext);
  const std::vector<int64_t> sequences = parse_numbers(args.sequences, "--sequences", 1, kMaxSequences);
  const std::vector<int64_t> edits = parse_numbers(args.edits, "--edit", 0, kMaxContext);
  using Kind = BenchTest::Kind;
  for (const int64_t depth : depths) {
    for (const int64_t n : prompts)
      add(plan.prompts, {.kind = Kind::kPrompt, .n_tokens = n, .depth = depth}, "--prompt");
    for (const int64_t n : generations) {
      for (const int64_t s : sequences) {
        add(plan.generations, {.kind = Kind::kGeneration, .n_tokens = n, .depth = depth, .n_sequences = s},
            "--generate");
      }
    }
    for (const int64_t n : edits) {
      for (const Kind kind : {Kind::kEdit, Kind::kDraftedEdit}) {
        add(plan.generations, {.kind = kind, .n_tokens = n, .depth = depth}, "--edit");
      }
    }
  }
  if (plan.prompts.empty() && plan.generations.empty()) {
    fail(ErrorCode::kUsage, "--prompt, --generate and --edit: all are 0, nothing is left to measure");
  }
  plan.batches = args.batches.empty() ? std::vector{args.engine.batch_tokens}
                                      : parse_numbers(args.batches, "--batch", 1, kMaxBatchTokens);
  plan.threads =
      args.threads.empty() ? std::vector<int64_t>{0} : parse_numbers(args.threads, "--threads", 1, kMaxThreads);
  return plan;
}

/// The tests of one engine, by depth: at each depth prompts, then generations. The batch means nothing to a token at a
/// time, so that generations come with the first batch only.
std::vector<BenchTest> tests_of(const BenchPlan& plan, bool first_batch) {
  std::vector<BenchTest> tests = plan.prompts;
  if (first_batch) tests.insert(tests.end(), plan.generations.begin(), plan.generations.end());
  std::ranges::stable_sort(tests, {}, &BenchTest::depth);
  return tests;
}

void run_tests(const BenchArgs& args, const BenchPlan& plan, BenchReport& report, bool& begun) {
  for (const int64_t threads : plan.threads) {
    for (const int64_t batch : plan.batches) {
      const std::vector<BenchTest> tests = tests_of(plan, batch == plan.batches.front());
      if (tests.empty()) continue;
      EngineOptions options = args.engine;
      options.threads = static_cast<int>(threads);
      options.batch_tokens = batch;
      const bool drafted =
          std::ranges::any_of(tests, [](const BenchTest& t) { return t.kind == BenchTest::Kind::kDraftedEdit; });
      options.max_guesses = drafted ? kMaxGuesses : 0;
      const std::unique_ptr<Engine> engine = Engine::open(args.model, options, environment);
      Benchmark benchmark(*engine, plan.context);
      if (!begun) {
        for (const std::string& warning : engine->warnings()) write_warning(warning);
        report.begin(*engine, args.model);
        begun = true;
      }
      for (const BenchTest& test : tests) {
        Progress progress(test.name());
        const BenchResult result =
            benchmark.measure(test, args.repetitions, !args.no_warm_up, [&](int64_t done, int64_t total) {
              progress.update(done, total);
              return !interrupted();
            });
        progress.clear();
        const bool prompt = test.kind == BenchTest::Kind::kPrompt;
        const int64_t together = prompt ? std::min(batch, test.n_tokens) : test.n_sequences;
        report.add({.threads = engine->n_threads(together), .batch_tokens = batch}, result);
        if (interrupted()) fail(ErrorCode::kInterrupted, "interrupted");
      }
    }
  }
}

int bench(const BenchArgs& args) {
  const BenchPlan plan = make_plan(args);
  install_interrupt_handler(2);
  const std::unique_ptr<BenchReport> report = BenchReport::make(args.output);
  bool begun = false;
  try {
    run_tests(args, plan, *report, begun);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInterrupted && begun) report->end(false);
    throw;
  }
  report->end(true);
  return 0;
}

}  // namespace

void add_bench(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(
      root, "bench", "Measure the speed of prompts and of generation",
      "  kda bench MODEL\n"
      "  kda bench MODEL -p 512,4096 -n 32 -d 0,4096\n"
      "  kda bench MODEL -p 512-4096*2 -n 0 -b 512,1024 -t 1-4\n"
      "  kda bench MODEL --output json > rates.json\n"
      "Lists: 512,4096; ranges: 1-4, 1-8*2, 0-3000+1000.\n"
      "pp512@d4096: a prompt of 512 tokens behind 4096 others. tg32: a generation of 32; tg32x8: in 8 sequences\n"
      "at once. ed256: a text of 256 tokens, in the context, is written again with every 24th changed; ed256-ngram:\n"
      "as with --draft ngram. Each row is the median of the repetitions, which follow a pass that does not count.\n"
      "GMAC/s: multiply-adds that the model's equations need. GB/s: weights, states and latents that the tokens\n"
      "have to read or write; `of read` is their share of what a plain sum over memory reached between the\n"
      "repetitions. Tokens are random but always the same, and so is the checksum of the logits for the same file,\n"
      "options and kernels.");
  const auto args = std::make_shared<BenchArgs>();
  add_model_argument(command, args->model);
  command.add_option("--prompt,-p", args->prompts, "Lengths of prompts; 0: none (default: 512)")->type_name("LIST");
  command.add_option("--generate,-n", args->generations, "Lengths of generations; 0: none (default: 32)")
      ->type_name("LIST");
  command
      .add_option("--sequences,-s", args->sequences, "Sequences that generate side by side in one pass (default: 1)")
      ->type_name("LIST");
  command
      .add_option("--edit,-e", args->edits,
                  "Lengths of a text that is written again with changes, without and with guesses (default: 0)")
      ->type_name("LIST");
  command.add_option("--depth,-d", args->depths, "Tokens in the context before (default: 0)")->type_name("LIST");
  command
      .add_option(
          "--batch,-b", args->batches,
          fmt::format("Prompt tokens that go through the layers together (default: {})", args->engine.batch_tokens))
      ->type_name("LIST");
  command.add_option("--threads,-t", args->threads, kThreadsHelp)->type_name("LIST");
  add_threads_prompt_option(command, args->engine);
  command.add_option("--repetitions,-r", args->repetitions, "How often each test counts (default: 3)")
      ->check(in_range(1, 1000))
      ->type_name("N");
  command.add_flag("--no-warm-up", args->no_warm_up, "No pass before the ones that count");
  command.add_option("--output,-o", args->output, "table, json, csv or markdown (default: table)")
      ->check(CLI::IsMember({"table", "json", "csv", "markdown"}).description(""))
      ->type_name("FORMAT");
  add_isa_option(command, args->engine);
  command.add_flag("--exact", args->engine.exact_activations, "Keep activations in fp32 for quantised weights too");
  command.callback([&chosen, args] { chosen = [args] { return bench(*args); }; });
}

}  // namespace kda::cli
