// Speed of the encoders on one thread, in MB of BF16 input a second (an element is two bytes).
//
//   quantize_bench [--peer libggml-base.so] --benchmark_filter='Q4_K'
//
// Names: SET/TYPE and SET/TYPE/weighted (with an importance matrix), SET being an instruction set or "peer":
// llama.cpp's encoder from that library, given the same numbers in the same way.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "base/half.h"
#include "peer_quantizer.h"
#include "quant/codec.h"
#include "quant/encode.h"

namespace kda {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kColumns = 2304;

struct Input {
  std::vector<uint16_t> bf16;
  std::vector<float> importance;  // a column
};

const Input& input() {
  static const Input kInput = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    Input in;
    for (int64_t i = 0; i < kRows * kColumns; ++i) in.bf16.push_back(float_to_bf16(0.02F * normal(random)));
    for (int64_t i = 0; i < kColumns; ++i) in.importance.push_back(std::exp(normal(random)));
    return in;
  }();
  return kInput;
}

/// encode(floats, bytes, importance) for all rows, after the conversion from BF16.
template <typename Encode>
void measure(benchmark::State& state, TensorType type, bool is_weighted, const Encode& encode) {
  const Input& in = input();
  std::vector<float> x(in.bf16.size());
  std::vector<std::byte> bytes(static_cast<size_t>(kRows * row_bytes(type, kColumns)));
  const float* importance = is_weighted ? in.importance.data() : nullptr;
  encode(x.data(), bytes.data(), importance);  // the peer builds tables at its first call
  for ([[maybe_unused]] auto _ : state) {
    dequantize_row(TensorType::kBF16, reinterpret_cast<const std::byte*>(in.bf16.data()), x.data(), kRows * kColumns);
    encode(x.data(), bytes.data(), importance);
    benchmark::ClobberMemory();
  }
  state.counters["MB/s"] =
      benchmark::Counter(static_cast<double>(kRows * kColumns * 2) * static_cast<double>(state.iterations()) * 1e-6,
                         benchmark::Counter::kIsRate);
}

void register_type(const TensorTypeInfo& info, bool is_weighted, const PeerQuantizer* peer) {
  const TensorType type = info.type;
  const std::string name = "/" + std::string(info.name) + (is_weighted ? "/weighted" : "");
  const auto add_ours = [&](const SearchTable& search) {
    benchmark::RegisterBenchmark((search.name + name).c_str(), [=, &search](benchmark::State& state) {
      measure(state, type, is_weighted, [=, &search](const float* x, std::byte* out, const float* importance) {
        for (int64_t r = 0; r < kRows; ++r) {
          find_encoder(type)(search, x + r * kColumns, out + r * row_bytes(type, kColumns), kColumns, importance);
        }
      });
    });
  };
  add_ours(kBaselineSearch);
#if defined(__x86_64__)
  if (cpu_features().avx2) add_ours(kAvx2Search);
#endif
  if (peer == nullptr || info.block_elements == 1 || !peer->can_quantize(type, is_weighted)) return;
  benchmark::RegisterBenchmark(("peer" + name).c_str(), [=](benchmark::State& state) {
    measure(state, type, is_weighted, [=](const float* x, std::byte* out, const float* importance) {
      peer->quantize(type, x, out, kRows, kColumns, importance);
    });
  });
}

}  // namespace
}  // namespace kda

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::unique_ptr<kda::PeerQuantizer> peer;
  if (argc == 3 && std::string_view(argv[1]) == "--peer") {
    try {
      peer = std::make_unique<kda::PeerQuantizer>(argv[2]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "quantize_bench: %s\n", error.what());
      return 1;
    }
    argc = 1;
  }
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (uint32_t number = 0; number < kda::kTensorTypeCount; ++number) {
    const kda::TensorTypeInfo* info = kda::find_tensor_type(number);
    if (info == nullptr || !kda::can_quantize(info->type)) continue;
    for (const bool is_weighted : {false, true}) kda::register_type(*info, is_weighted, peer.get());
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
