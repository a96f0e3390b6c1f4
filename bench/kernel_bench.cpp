// Speed of single kernels on one thread: GMAC/s, and GB/s of weights, state or cache.
//
//   kernel_bench --benchmark_filter='avx2/matmul/Q4_K/.*'
//
// Names: SET/matmul/TYPE/k:COLUMNS/n:TOKENS, SET/matmul_f32/... (fp32 activations), SET/kda_head/T:TOKENS,
// SET/mla_attend/rows:ROWS/keys:KEYS, SET/mla_head/n:TOKENS/depth:KEYS_BEFORE and SET/KERNEL.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu_features.h"
#include "kernels/kernel_table.h"

namespace kda {
namespace {

// Beyond what the last-level cache keeps, so that few tokens read their weights from memory as a model does.
constexpr int64_t kWeightBytes = int64_t{96} << 20;

std::vector<float> random_floats(size_t n, float low, float high) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> values(low, high);
  std::vector<float> out(n);
  for (float& x : out) x = values(random);
  return out;
}

/// Random floats on their own pages: as in the engine, rows of whole cache lines do not straddle two.
AlignedBuffer aligned_floats(int64_t n, float low, float high) {
  const std::vector<float> values = random_floats(static_cast<size_t>(n), low, high);
  AlignedBuffer out(values.size() * sizeof(float));
  std::copy(values.begin(), values.end(), out.as<float>(values.size()).begin());
  return out;
}

/// Bytes from 64 to 127: as the scale of an MXFP4 block that keeps subnormal floats, which are slow, away.
AlignedBuffer random_bytes(size_t n) {
  std::mt19937_64 random(2);
  AlignedBuffer out(n);
  for (uint64_t& x : out.as<uint64_t>(n / 8)) x = (random() & 0x3F3F3F3F3F3F3F3F) | 0x4040404040404040;
  return out;
}

void report(benchmark::State& state, int64_t macs, int64_t bytes) {
  const auto rate = [&state](int64_t n) {
    return benchmark::Counter(static_cast<double>(n) * static_cast<double>(state.iterations()) * 1e-9,
                              benchmark::Counter::kIsRate);
  };
  if (macs > 0) state.counters["GMAC/s"] = rate(macs);
  if (bytes > 0) state.counters["GB/s"] = rate(bytes);
}

/// A matrix of random bytes times n tokens, 128 rows a call as a thread of the engine takes them.
void bench_matmul(benchmark::State& state, const KernelTable& table, MatmulKernel kernel, TensorType type, int64_t k,
                  int64_t n) {
  const int64_t bytes_a_row = row_bytes(type, k);
  const int64_t rows = n <= 16 ? kWeightBytes / bytes_a_row / 128 * 128 : 256;
  const AlignedBuffer weights = random_bytes(static_cast<size_t>(rows * bytes_a_row + 8));
  const AlignedBuffer x_memory = aligned_floats(n * k, -1, 1);
  const auto* x = reinterpret_cast<const float*>(x_memory.data());
  std::vector<int8_t> codes(static_cast<size_t>(n * k));
  std::vector<float> scales(static_cast<size_t>(n * k / 32));
  std::vector<int16_t> sums(static_cast<size_t>(n * k / 16));
  std::vector<float> y(static_cast<size_t>(n * rows));
  const AlignedBuffer scratch(static_cast<size_t>(matmul_scratch_bytes(k)));

  if (kernel.format == ActFormat::kQ8Block32) {
    table.quantize_block32(x, n * k, codes.data(), scales.data(), sums.data());
  } else if (kernel.format == ActFormat::kQ8Block256) {
    table.quantize_block256(x, n * k, codes.data(), scales.data(), sums.data());
  }
  MatmulArgs args;
  args.w = weights.data();
  args.w_row_bytes = bytes_a_row;
  args.k = k;
  args.x = {x, k, codes.data(), scales.data(), sums.data()};
  args.n = n;
  args.y = y.data();
  args.y_stride = rows;
  args.scratch = scratch.data();
  for ([[maybe_unused]] auto _ : state) {
    for (args.row_begin = 0; args.row_begin < rows; args.row_begin += 128) {
      args.row_end = args.row_begin + 128;
      kernel.fn(args);
    }
    benchmark::ClobberMemory();
  }
  report(state, rows * k * n, rows * bytes_a_row);
}

/// All 32 heads of a layer of Kimi Linear.
void bench_kda_head(benchmark::State& state, const KernelTable& table, int64_t n_tokens) {
  constexpr int64_t kHeads = 32;
  constexpr int64_t kDim = 128;
  constexpr int64_t kStride = kHeads * kDim;
  const auto n = static_cast<size_t>(n_tokens * kStride);
  const std::vector<float> q = random_floats(n, -0.1F, 0.1F);
  const std::vector<float> v = random_floats(n, -1, 1);
  const std::vector<float> decay = random_floats(n, -2, 0);
  const std::vector<float> beta = random_floats(static_cast<size_t>(n_tokens * kHeads), 0, 1);
  std::vector<float> s(static_cast<size_t>(kHeads * kDim * kDim));
  std::vector<float> o(n);
  for ([[maybe_unused]] auto _ : state) {
    for (int64_t h = 0; h < kHeads; ++h) {
      KdaHeadArgs args;
      args.n_tokens = n_tokens;
      args.dim_k = args.dim_v = kDim;
      args.stride_qk = args.stride_v = kStride;
      args.q = args.k = q.data() + h * kDim;
      args.v = v.data() + h * kDim;
      args.log_decay = decay.data() + h * kDim;
      args.beta = beta.data() + h;
      args.stride_beta = kHeads;
      args.state = s.data() + h * kDim * kDim;
      args.o = o.data() + h * kDim;
      table.kda_head(args);
    }
    benchmark::ClobberMemory();
  }
  report(state, 3 * n_tokens * kHeads * kDim * kDim, 2 * kHeads * kDim * kDim * 4);
}

void bench_mla_attend(benchmark::State& state, const KernelTable& table, int64_t n_rows, int64_t n_keys) {
  constexpr int64_t kDimQk = 576;
  constexpr int64_t kDimV = 512;
  const AlignedBuffer q_memory = aligned_floats(n_rows * kDimQk, -1, 1);
  const auto* q = reinterpret_cast<const float*>(q_memory.data());
  const AlignedBuffer cache_memory = aligned_floats(n_keys * kDimQk, -1, 1);
  const auto* cache = reinterpret_cast<const float*>(cache_memory.data());
  std::vector<float> ctx(static_cast<size_t>(n_rows * kDimV));
  std::vector<float> scratch(static_cast<size_t>(mla_scratch_floats(n_rows)));
  std::vector<const float*> q_rows;
  std::vector<float*> ctx_rows;
  for (int64_t r = 0; r < n_rows; ++r) {
    q_rows.push_back(q + r * kDimQk);
    ctx_rows.push_back(ctx.data() + r * kDimV);
  }
  const std::vector<int64_t> keys(static_cast<size_t>(n_rows), n_keys);
  std::vector<SoftmaxState> states(static_cast<size_t>(n_rows));
  MlaAttendArgs args;
  args.n_rows = n_rows;
  args.dim_qk = kDimQk;
  args.dim_v = kDimV;
  args.scale = 0.07F;
  args.q = q_rows.data();
  args.ctx = ctx_rows.data();
  args.states = states.data();
  args.n_keys = keys.data();
  args.cache = cache;
  args.key_end = n_keys;
  args.scratch = scratch.data();
  for ([[maybe_unused]] auto _ : state) {
    table.mla_attend(args);
    benchmark::ClobberMemory();
  }
  report(state, n_rows * n_keys * (kDimQk + kDimV), n_keys * kDimQk * 4);
}

/// One head of expanded attention for n tokens behind `depth` others.
void bench_mla_head(benchmark::State& state, const KernelTable& table, int64_t n, int64_t depth) {
  constexpr int64_t kRank = 512;
  constexpr int64_t kDim = 128;
  constexpr int64_t kPe = 64;
  const AlignedBuffer q_memory = aligned_floats(n * (kDim + kPe), -1, 1);
  const auto* q = reinterpret_cast<const float*>(q_memory.data());
  const AlignedBuffer cache_memory = aligned_floats((depth + n) * (kRank + kPe), -1, 1);
  const auto* cache = reinterpret_cast<const float*>(cache_memory.data());
  const AlignedBuffer up_memory = aligned_floats(mla_up_floats(kDim, kDim, kRank), -0.1F, 0.1F);
  const auto* up = reinterpret_cast<const float*>(up_memory.data());
  std::vector<float> out(static_cast<size_t>(n * kDim));
  std::vector<SoftmaxState> states(static_cast<size_t>(n));
  const AlignedBuffer scratch(static_cast<size_t>(mla_head_scratch_floats(kDim, kPe, kDim)) * 4);
  MlaHeadArgs args;
  args.n_rows = n;
  args.first_position = depth;
  args.dim_nope = args.dim_v = kDim;
  args.dim_pe = kPe;
  args.rank = kRank;
  args.scale = 0.07F;
  args.q = q;
  args.q_stride = kDim + kPe;
  args.cache = cache;
  args.up = up;
  args.out = out.data();
  args.out_stride = kDim;
  args.states = states.data();
  args.scratch = reinterpret_cast<float*>(scratch.data());
  for ([[maybe_unused]] auto _ : state) {
    table.mla_head(args);
    benchmark::ClobberMemory();
  }
  const int64_t pairs = n * depth + n * (n + 1) / 2;
  report(state, pairs * (2 * kDim + kPe) + (depth + n) * kRank * 2 * kDim, 0);
}

/// A kernel that walks over n floats; kBytes of memory traffic each.
template <typename Kernel>
void bench_floats(benchmark::State& state, int64_t bytes, Kernel kernel) {
  for ([[maybe_unused]] auto _ : state) {
    kernel();
    benchmark::ClobberMemory();
  }
  report(state, 0, bytes);
}

void register_elementwise(const std::string& set, const KernelTable& table) {
  static constexpr int64_t kWidth = 2304;
  static std::vector<float> x = random_floats(kWidth, -4, 4);
  static std::vector<float> w = random_floats(kWidth, 0, 2);
  static std::vector<float> out(kWidth);
  static std::vector<int8_t> codes(kWidth);
  static std::vector<int16_t> sums(kWidth);
  const auto add = [&](const char* name, auto kernel) {
    benchmark::RegisterBenchmark((set + name).c_str(),
                                 [=](benchmark::State& state) { bench_floats(state, kWidth * 4, kernel); });
  };
  add("rms_norm", [&table] { table.rms_norm(x.data(), w.data(), 1e-5F, kWidth, out.data()); });
  add("silu_mul", [&table] { table.silu_mul(x.data(), w.data(), kWidth, out.data()); });
  add("sigmoid", [&table] { table.sigmoid(x.data(), kWidth, out.data()); });
  add("axpy", [&table] { table.axpy(0.5F, x.data(), kWidth, out.data()); });
  add("quantize_block32",
      [&table] { table.quantize_block32(x.data(), kWidth, codes.data(), out.data(), sums.data()); });
  add("quantize_block256",
      [&table] { table.quantize_block256(x.data(), kWidth, codes.data(), out.data(), sums.data()); });
}

void register_set(const KernelTable& table) {
  const std::string set = std::string(table.name) + "/";
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* type = find_tensor_type(number);
    if (type == nullptr || !type->is_weight) continue;
    const auto add = [&](const char* kind, MatmulKernel kernel) {
      for (const int64_t k : {2304, 1024}) {
        for (const int64_t n : {1, 4, 16, 64, 512}) {
          benchmark::RegisterBenchmark(
              fmt::format("{}{}/{}/k:{}/n:{}", set, kind, type->name, k, n).c_str(),
              [=, &table](benchmark::State& state) { bench_matmul(state, table, kernel, type->type, k, n); });
        }
      }
    };
    if (table.matmul[number].fn != nullptr) add("matmul", table.matmul[number]);
    if (table.matmul_f32[number] != nullptr) add("matmul_f32", {table.matmul_f32[number], ActFormat::kF32});
  }
  for (const int64_t n : {1, 16, 512}) {
    benchmark::RegisterBenchmark(fmt::format("{}kda_head/T:{}", set, n).c_str(),
                                 [=, &table](benchmark::State& state) { bench_kda_head(state, table, n); });
  }
  for (const int64_t rows : {32, 512}) {
    for (const int64_t keys : {512, 4096}) {
      benchmark::RegisterBenchmark(
          fmt::format("{}mla_attend/rows:{}/keys:{}", set, rows, keys).c_str(),
          [=, &table](benchmark::State& state) { bench_mla_attend(state, table, rows, keys); });
    }
  }
  for (const int64_t depth : {0, 4096}) {
    benchmark::RegisterBenchmark(fmt::format("{}mla_head/n:512/depth:{}", set, depth).c_str(),
                                 [=, &table](benchmark::State& state) { bench_mla_head(state, table, 512, depth); });
  }
  register_elementwise(set, table);
}

}  // namespace
}  // namespace kda

int main(int argc, char** argv) {
  kda::register_set(kda::scalar_kernels());
  const kda::KernelTable* avx2 = kda::avx2_kernels();
  if (avx2 != nullptr && kda::cpu_features().avx2) kda::register_set(*avx2);
  const kda::KernelTable* avx512 = kda::avx512_kernels();
  if (avx512 != nullptr && kda::cpu_features().avx512) kda::register_set(*avx512);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
