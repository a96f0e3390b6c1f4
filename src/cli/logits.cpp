#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "arch/model_config.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "formats/atomic_file.h"
#include "formats/npy.h"
#include "layers/tensor_sink.h"

namespace kda::cli {

namespace {

struct LogitsArgs {
  std::string model;
  EngineOptions engine;
  std::string ids;
  std::string out;
  std::string dump;
  std::vector<int64_t> cuts;
};

/// Joins what the batches give along their first dimension, the tokens.
class Collector : public TensorSink {
 public:
  void put(std::string_view name, std::span<const int64_t> shape, const float* values) override {
    size_t n = 1;
    for (const int64_t d : shape) n *= static_cast<size_t>(d);
    Tensor& tensor = tensors_[std::string(name)];
    if (tensor.shape.empty()) {
      tensor.shape.assign(shape.begin(), shape.end());
    } else {
      KDA_CHECK(std::equal(shape.begin() + 1, shape.end(), tensor.shape.begin() + 1, tensor.shape.end()));
      tensor.shape[0] += shape[0];
    }
    tensor.values.insert(tensor.values.end(), values, values + n);
  }

  void write(const std::filesystem::path& folder) const {
    for (const auto& [name, tensor] : tensors_) write_npy_floats(folder / (name + ".npy"), tensor.values, tensor.shape);
  }

 private:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors_;
};

std::vector<int32_t> read_ids(const std::string& path, int64_t vocab) {
  const std::vector<int64_t> wide = read_npy_ints(path);
  if (wide.empty()) fail(ErrorCode::kUsage, "{}: holds no token ids", path);
  std::vector<int32_t> out;
  out.reserve(wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < 0 || wide[i] >= vocab) {
      fail(ErrorCode::kUsage, "{}: id {} at position {}, expected 0 to {}", path, wide[i], i, vocab - 1);
    }
    out.push_back(static_cast<int32_t>(wide[i]));
  }
  return out;
}

int logits(const LogitsArgs& args) {
  const std::unique_ptr<Engine> engine = Engine::open(args.model, args.engine, environment);
  for (const std::string& warning : engine->warnings()) write_warning(warning);
  const int64_t vocab = engine->config().vocab_size;
  const std::vector<int32_t> ids = read_ids(args.ids, vocab);
  const auto n_ids = static_cast<int64_t>(ids.size());
  const int64_t bytes = n_ids * vocab * static_cast<int64_t>(sizeof(float));
  if (bytes > available_memory_bytes()) {
    fail(ErrorCode::kLimit, "the logits of {} tokens take {}, but {} are free: give fewer ids", n_ids,
         human_bytes(bytes), human_bytes(available_memory_bytes()));
  }
  std::vector<int64_t> borders = args.cuts;
  borders.push_back(n_ids);
  for (size_t i = 0; i < borders.size(); ++i) {
    if (borders[i] <= (i == 0 ? 0 : borders[i - 1]) || borders[i] > n_ids) {
      fail(ErrorCode::kUsage, "--cuts: expected rising positions between 1 and {}, found {}", n_ids - 1, borders[i]);
    }
  }
  { const AtomicFile writable(args.out); }  // a place that cannot be written to is known before the work
  if (!args.dump.empty()) {
    std::error_code error;
    std::filesystem::create_directories(args.dump, error);
    if (error) fail(ErrorCode::kIo, "{}: cannot be made a folder: {}", args.dump, error.message());
  }

  const std::unique_ptr<Sequence> sequence = engine->new_sequence(n_ids);
  Collector collector;
  TensorSink* sink = args.dump.empty() ? nullptr : &collector;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(n_ids * vocab));
  install_interrupt_handler(2);
  Progress progress("computing");
  int64_t begin = 0;
  for (const int64_t end : borders) {
    const auto part = std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    sequence->feed_all_logits(
        part,
        [&](int64_t, std::span<const float> row) {
          if (interrupted()) fail(ErrorCode::kInterrupted, "interrupted");
          values.insert(values.end(), row.begin(), row.end());
          progress.update(static_cast<int64_t>(values.size()) / vocab, n_ids);
        },
        sink, [](int64_t, int64_t) { return !interrupted(); });
    begin = end;
  }
  progress.clear();
  const int64_t shape[] = {n_ids, vocab};
  write_npy_floats(args.out, values, shape);
  if (sink != nullptr) collector.write(args.dump);
  return 0;
}

}  // namespace

void add_logits(CLI::App& root, Action& chosen) {
  CLI::App& command =
      add_subcommand(root, "logits", "Compute the logits after every token of a prompt",
                     "  kda logits MODEL --ids ids.npy --out logits.npy\n"
                     "  kda logits MODEL --ids ids.npy --out logits.npy --dump intermediates --cuts 7,64\n"
                     "ids.npy: one dimension of integers. logits.npy: float32 [tokens, vocabulary].");
  const auto args = std::make_shared<LogitsArgs>();
  add_model_argument(command, args->model);
  command.add_option("--ids", args->ids, "Token ids")->required()->type_name("FILE.npy");
  command.add_option("--out", args->out, "Where the logits go")->required()->type_name("FILE.npy");
  command.add_option("--dump", args->dump, "Write every intermediate as FOLDER/NAME.npy")->type_name("FOLDER");
  command.add_option("--cuts", args->cuts, "Positions at which the prompt is cut into parts, fed one after the other")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("A,B,...");
  command.add_flag("--exact", args->engine.exact_activations, "Keep activations in fp32 for quantised weights too");
  add_engine_options(command, args->engine);
  command.callback([&chosen, args] { chosen = [args] { return logits(*args); }; });
}

}  // namespace kda::cli
