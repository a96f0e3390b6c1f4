// Work of fixed size whose instructions instructions.py counts under valgrind.
//
//   perf_cases --build     the compiler, C library and flags that the counts depend on
//   perf_cases MODEL       runs every case and prints the names, in order, of those that were counted
//
// Each case runs twice, the second time inside kda_perf_counted: the first takes what happens once in a program
// (symbols resolved by the dynamic linker, tables filled at first use). Cases are KERNELS/NAME for the sets that
// valgrind can run; it knows no AVX-512.
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "arch/model_config.h"
#include "base/aligned_buffer.h"
#include "base/cpu_features.h"
#include "engine/engine.h"
#include "kernels/kernel_table.h"
#include "support/random_blocks.h"

/// Its name is in the options that instructions.py gives to valgrind: entry and exit switch counting on and off.
extern "C" [[gnu::noinline, gnu::used]] void kda_perf_counted(const std::function<void()>& work) {
  work();
  asm volatile("" ::: "memory");  // a jump instead of the call would leave the function before its work
}

namespace kda {
namespace {

void count(const std::string& name, const std::function<void()>& work) {
  work();
  kda_perf_counted(work);
  fmt::print("{}\n", name);
}

std::span<float> random_floats(AlignedBuffer& memory, int64_t n, float low, float high) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> values(low, high);
  memory = AlignedBuffer(static_cast<size_t>(n) * sizeof(float));
  const std::span<float> out = memory.as<float>(static_cast<size_t>(n));
  for (float& x : out) x = values(random);
  return out;
}

void count_matmul(const KernelTable& table, TensorType type, int64_t n) {
  constexpr int64_t kColumns = 1024;
  constexpr int64_t kRows = 64;
  const MatmulKernel kernel = table.matmul[static_cast<uint32_t>(type)];
  const int64_t bytes_a_row = row_bytes(type, kColumns);
  const AlignedBuffer weights(static_cast<size_t>(kRows * bytes_a_row));
  std::mt19937 random(2);
  for (int64_t r = 0; r < kRows; ++r) {
    test::fill_random_row(type, kColumns, random, weights.data() + r * bytes_a_row);
  }
  AlignedBuffer x_memory;
  const std::span<const float> x = random_floats(x_memory, n * kColumns, -1, 1);
  std::vector<int8_t> codes(x.size());
  std::vector<float> scales(x.size() / 32);
  std::vector<int16_t> sums(x.size() / 16);
  if (kernel.format == ActFormat::kQ8Block32) {
    table.quantize_block32(x.data(), n * kColumns, codes.data(), scales.data(), sums.data());
  } else if (kernel.format == ActFormat::kQ8Block256) {
    table.quantize_block256(x.data(), n * kColumns, codes.data(), scales.data(), sums.data());
  }
  std::vector<float> y(static_cast<size_t>(n * kRows));
  const AlignedBuffer scratch(static_cast<size_t>(matmul_scratch_bytes(kColumns)));
  MatmulArgs args;
  args.w = weights.data();
  args.w_row_bytes = bytes_a_row;
  args.k = kColumns;
  args.row_end = kRows;
  args.x = {x.data(), kColumns, codes.data(), scales.data(), sums.data()};
  args.n = n;
  args.y = y.data();
  args.y_stride = kRows;
  args.scratch = scratch.data();
  count(fmt::format("{}/matmul/{}/n:{}", table.name, type_info(type).name, n), [&] { kernel.fn(args); });
}

void count_quantizers(const KernelTable& table) {
  constexpr int64_t kColumns = 4096;
  AlignedBuffer memory;
  const std::span<const float> x = random_floats(memory, kColumns, -4, 4);
  std::vector<int8_t> codes(kColumns);
  std::vector<float> scales(kColumns / 32);
  std::vector<int16_t> sums(kColumns / 16);
  for (const auto& [name, fn] : {std::pair{"quantize_block32", table.quantize_block32},
                                 std::pair{"quantize_block256", table.quantize_block256}}) {
    count(fmt::format("{}/{}", table.name, name),
          [&, fn = fn] { fn(x.data(), kColumns, codes.data(), scales.data(), sums.data()); });
  }
}

void count_kda_head(const KernelTable& table, int64_t n_tokens) {
  constexpr int64_t kDim = 128;
  AlignedBuffer q_memory, v_memory, decay_memory, beta_memory;
  std::vector<float> state(kDim * kDim);
  std::vector<float> out(static_cast<size_t>(n_tokens * kDim));
  KdaHeadArgs args;
  args.n_tokens = n_tokens;
  args.dim_k = args.dim_v = args.stride_qk = args.stride_v = kDim;
  args.q = args.k = random_floats(q_memory, n_tokens * kDim, -0.1F, 0.1F).data();
  args.v = random_floats(v_memory, n_tokens * kDim, -1, 1).data();
  args.log_decay = random_floats(decay_memory, n_tokens * kDim, -2, 0).data();
  args.beta = random_floats(beta_memory, n_tokens, 0, 1).data();
  args.stride_beta = 1;
  args.state = state.data();
  args.o = out.data();
  count(fmt::format("{}/kda_head/T:{}", table.name, n_tokens), [&] { table.kda_head(args); });
}

/// Two tiles of keys and a part of one.
void count_mla_attend(const KernelTable& table) {
  constexpr int64_t kDimQk = 576;
  constexpr int64_t kDimV = 512;
  constexpr int64_t kRows = 16;
  constexpr int64_t kKeys = 150;
  AlignedBuffer q_memory, cache_memory;
  const std::span<const float> q = random_floats(q_memory, kRows * kDimQk, -1, 1);
  const std::span<const float> cache = random_floats(cache_memory, kKeys * kDimQk, -1, 1);
  std::vector<float> ctx(kRows * kDimV);
  std::vector<float> scratch(static_cast<size_t>(mla_scratch_floats(kRows)));
  std::vector<const float*> q_rows;
  std::vector<float*> ctx_rows;
  for (int64_t r = 0; r < kRows; ++r) {
    q_rows.push_back(q.data() + r * kDimQk);
    ctx_rows.push_back(ctx.data() + r * kDimV);
  }
  const std::vector<int64_t> keys(kRows, kKeys);
  std::vector<SoftmaxState> states(kRows);
  MlaAttendArgs args;
  args.n_rows = kRows;
  args.dim_qk = kDimQk;
  args.dim_v = kDimV;
  args.scale = 0.07F;
  args.q = q_rows.data();
  args.ctx = ctx_rows.data();
  args.states = states.data();
  args.n_keys = keys.data();
  args.cache = cache.data();
  args.key_end = kKeys;
  args.scratch = scratch.data();
  count(fmt::format("{}/mla_attend", table.name), [&] { table.mla_attend(args); });
}

void count_mla_head(const KernelTable& table) {
  constexpr int64_t kRank = 128;
  constexpr int64_t kDim = 64;
  constexpr int64_t kPe = 32;
  constexpr int64_t kRows = 64;
  constexpr int64_t kDepth = 64;
  AlignedBuffer q_memory, cache_memory, up_memory;
  std::vector<float> out(kRows * kDim);
  std::vector<SoftmaxState> states(kRows);
  const AlignedBuffer scratch(static_cast<size_t>(mla_head_scratch_floats(kDim, kPe, kDim)) * sizeof(float));
  MlaHeadArgs args;
  args.n_rows = kRows;
  args.first_position = kDepth;
  args.dim_nope = args.dim_v = kDim;
  args.dim_pe = kPe;
  args.rank = kRank;
  args.scale = 0.07F;
  args.q = random_floats(q_memory, kRows * (kDim + kPe), -1, 1).data();
  args.q_stride = kDim + kPe;
  args.cache = random_floats(cache_memory, (kDepth + kRows) * (kRank + kPe), -1, 1).data();
  args.up = random_floats(up_memory, mla_up_floats(kDim, kDim, kRank), -0.1F, 0.1F).data();
  args.out = out.data();
  args.out_stride = kDim;
  args.states = states.data();
  args.scratch = reinterpret_cast<float*>(scratch.data());
  count(fmt::format("{}/mla_head", table.name), [&] { table.mla_head(args); });
}

void count_kernels(const KernelTable& table) {
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kQ8_0, TensorType::kQ5_K,
                                TensorType::kQ2_K, TensorType::kBF16, TensorType::kF32}) {
    for (const int64_t n : {1, 16}) count_matmul(table, type, n);
  }
  count_quantizers(table);
  for (const int64_t n_tokens : {1, 16}) count_kda_head(table, n_tokens);
  count_mla_attend(table);
  count_mla_head(table);
}

/// A prompt in one batch, and one token behind it, on one thread: waiting threads would count turns by the clock.
void count_model(const char* model, const char* set) {
  const auto engine = Engine::open(model, {.threads = 1, .isa = set}, [](const char*) { return std::string(); });
  const auto sequence = engine->new_sequence(64);
  std::vector<int32_t> prompt(24);
  for (size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7 % engine->config().vocab_size);
  }
  count(fmt::format("{}/demo/prompt", set), [&] {
    sequence->clear();
    sequence->feed(prompt);
  });
  count(fmt::format("{}/demo/decode", set), [&] { sequence->feed(std::span(prompt).first(1)); });
}

int run(const std::string& argument) {
  if (argument == "--build") {
    fmt::print("{}, glibc {}, {}\n", KDA_PERF_COMPILER, gnu_get_libc_version(), KDA_PERF_FLAGS);
    return 0;
  }
  std::vector<const KernelTable*> sets = {&scalar_kernels()};
  if (avx2_kernels() != nullptr && cpu_features().avx2) sets.push_back(avx2_kernels());
  for (const KernelTable* table : sets) {
    count_kernels(*table);
    count_model(argument.c_str(), table->name);
  }
  return 0;
}

}  // namespace
}  // namespace kda

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: perf_cases --build | MODEL\n");
    return 2;
  }
  try {
    return kda::run(argv[1]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "perf_cases: error: {}\n", e.what());
    return 1;
  }
}
