// Speed of the tokenizer on one thread, in bytes of text:
//
//   tokenizer_bench FOLDER TEXT [--benchmark_filter=...]
//
// FOLDER is a Hugging Face folder with tiktoken.model, TEXT a file of text.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <string>

#include "base/error.h"
#include "formats/json.h"
#include "tokenizer/splitter.h"
#include "tokenizer/tokenizer.h"

namespace kda {
namespace {

// As many as Kimi's vocabulary has; a smaller one is filled up with special tokens.
constexpr int64_t kNRows = 163840;
constexpr size_t kMaxTextBytes = size_t{256} << 20;

void run(const std::string& folder, const std::string& text_file) {
  const std::string text = read_text_file(text_file, kMaxTextBytes);
  const Tokenizer tokenizer(read_folder_vocabulary(folder, kNRows));
  const auto add = [&text](const char* name, auto function) {
    benchmark::RegisterBenchmark(name, [&text, function](benchmark::State& state) {
      for (auto _ : state) function();
      state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
    });
  };
  const std::vector<int32_t> ids = tokenizer.encode(text);
  add("split", [&] {
    for (size_t at = 0; at < text.size();) benchmark::DoNotOptimize(at = piece_end(text, at));
  });
  add("encode", [&] { benchmark::DoNotOptimize(tokenizer.encode(text)); });
  add("encode/special", [&] { benchmark::DoNotOptimize(tokenizer.encode(text, true)); });
  add("decode", [&] { benchmark::DoNotOptimize(tokenizer.decode(ids)); });
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace kda

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenizer_bench FOLDER TEXT\n");
    return 2;
  }
  try {
    kda::run(argv[1], argv[2]);
  } catch (const kda::Error& error) {
    fmt::print(stderr, "tokenizer_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
