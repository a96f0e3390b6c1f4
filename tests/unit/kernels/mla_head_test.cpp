#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernel_sets.h"
#include "support/guarded_buffer.h"

namespace kda {
namespace {

std::vector<float> normal_floats(int64_t n, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = normal(random);
  return values;
}

struct Head {
  Head(int64_t keys, int64_t nope_, int64_t pe_, int64_t value_, int64_t rank_, float strength)
      : n_keys(keys),
        nope(nope_),
        pe(pe_),
        value(value_),
        rank(rank_),
        scale(1 / std::sqrt(static_cast<float>(nope_ + pe_))),
        q(normal_floats(keys * (nope + pe), strength, 1)),
        cache(normal_floats(keys * (rank + pe), 1, 2)),
        k_up(normal_floats(rank * nope, 1 / std::sqrt(static_cast<float>(rank)), 3)),
        v_up(normal_floats(rank * value, 1 / std::sqrt(static_cast<float>(rank)), 4)) {}

  int64_t n_keys, nope, pe, value, rank;
  float scale;
  std::vector<float> q;           // [keys, nope + pe]: a query a key
  std::vector<float> cache;       // [keys, rank + pe]
  std::vector<float> k_up, v_up;  // [rank, nope], [rank, value]
};

// Outputs [n, value] of the queries [begin, begin + n); the cache ends with the last key that they see.
std::vector<float> run(const KernelTable& kernels, const Head& h, int64_t begin, int64_t n) {
  const int64_t latent = h.rank + h.pe;
  const int64_t dim_q = h.nope + h.pe;
  const test::GuardedBuffer cache(static_cast<size_t>((begin + n) * latent) * 4);
  std::copy_n(h.cache.data(), (begin + n) * latent, cache.as<float>());
  const test::GuardedBuffer q(static_cast<size_t>(n * dim_q) * 4);
  std::copy_n(h.q.data() + begin * dim_q, n * dim_q, q.as<float>());
  const test::GuardedBuffer up(static_cast<size_t>(mla_up_floats(h.nope, h.value, h.rank)) * 4);
  std::memset(up.data(), 0, up.size_bytes());
  const auto pack = [&](const std::vector<float>& from, int64_t columns, float* to) {
    for (int64_t i = 0; i < h.rank; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        to[(c / kPanelColumns * h.rank + i) * kPanelColumns + c % kPanelColumns] =
            from[static_cast<size_t>(i * columns + c)];
      }
    }
  };
  pack(h.k_up, h.nope, up.as<float>());
  pack(h.v_up, h.value, up.as<float>() + panels(h.nope) * kPanelColumns * h.rank);
  const test::GuardedBuffer out(static_cast<size_t>(n * h.value) * 4);
  std::memset(out.data(), 0xFF, out.size_bytes());  // NaN: what was there must not matter
  const test::GuardedBuffer scratch(static_cast<size_t>(mla_head_scratch_floats(h.nope, h.pe, h.value)) * 4);
  std::memset(scratch.data(), 0xFF, scratch.size_bytes());
  std::vector<SoftmaxState> states(static_cast<size_t>(n));
  MlaHeadArgs args;
  args.n_rows = n;
  args.first_position = begin;
  args.dim_nope = h.nope;
  args.dim_pe = h.pe;
  args.dim_v = h.value;
  args.rank = h.rank;
  args.scale = h.scale;
  args.q = q.as<float>();
  args.q_stride = dim_q;
  args.cache = cache.as<float>();
  args.up = up.as<float>();
  args.out = out.as<float>();
  args.out_stride = h.value;
  args.states = states.data();
  args.scratch = scratch.as<float>();
  kernels.mla_head(args);
  return {out.as<float>(), out.as<float>() + n * h.value};
}

std::vector<double> in_double(const Head& h, int64_t row) {
  const auto expand = [&](int64_t key, const std::vector<float>& up, int64_t columns) {
    std::vector<double> out(static_cast<size_t>(columns));
    for (int64_t i = 0; i < h.rank; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        out[static_cast<size_t>(c)] +=
            double{h.cache[static_cast<size_t>(key * (h.rank + h.pe) + i)]} * up[static_cast<size_t>(i * columns + c)];
      }
    }
    return out;
  };
  const float* q = h.q.data() + row * (h.nope + h.pe);
  std::vector<double> score;
  for (int64_t key = 0; key <= row; ++key) {
    const std::vector<double> k = expand(key, h.k_up, h.nope);
    double sum = 0;
    for (int64_t i = 0; i < h.nope; ++i) sum += q[i] * k[static_cast<size_t>(i)];
    for (int64_t i = 0; i < h.pe; ++i) {
      sum += double{q[h.nope + i]} * h.cache[static_cast<size_t>(key * (h.rank + h.pe) + h.rank + i)];
    }
    score.push_back(sum * h.scale);
  }
  const double max = *std::max_element(score.begin(), score.end());
  double total = 0;
  for (double& s : score) total += s = std::exp(s - max);
  std::vector<double> out(static_cast<size_t>(h.value));
  for (int64_t key = 0; key <= row; ++key) {
    const std::vector<double> v = expand(key, h.v_up, h.value);
    for (size_t i = 0; i < out.size(); ++i) out[i] += score[static_cast<size_t>(key)] / total * v[i];
  }
  return out;
}

class MlaHeadTest : public test::KernelSetTest {};

TEST_P(MlaHeadTest, IsTheSoftmaxComputedInDouble) {
  for (const Head& h : {Head(70, 128, 64, 128, 512, 1), Head(131, 13, 5, 19, 23, 3), Head(65, 40, 24, 56, 72, 2),
                        Head(3, 1, 1, 1, 1, 1), Head(140, 16, 0, 33, 200, 8)}) {
    for (const int64_t begin : {int64_t{0}, h.n_keys / 2}) {
      const int64_t n = h.n_keys - begin;
      const std::vector<float> out = run(*kernels, h, begin, n);
      double error = 0;
      double size = 0;
      for (int64_t r = 0; r < n; ++r) {
        const std::vector<double> expected = in_double(h, begin + r);
        for (size_t i = 0; i < expected.size(); ++i) {
          const double difference = out[static_cast<size_t>(r * h.value) + i] - expected[i];
          error += difference * difference;
          size += expected[i] * expected[i];
        }
      }
      EXPECT_LT(std::sqrt(error / size), 2e-6) << h.rank << " latent channels from " << begin;
    }
  }
}

TEST_P(MlaHeadTest, ARowsBitsDependOnItsPositionOnly) {
  for (const Head& h : {Head(211, 32, 16, 48, 64, 2), Head(150, 11, 3, 21, 17, 2)}) {
    const std::vector<float> together = run(*kernels, h, 0, h.n_keys);
    const auto rows = [&](int64_t begin, int64_t n) {
      return std::vector<float>(together.begin() + begin * h.value, together.begin() + (begin + n) * h.value);
    };
    for (int64_t r = 0; r < h.n_keys; ++r) EXPECT_EQ(run(*kernels, h, r, 1), rows(r, 1)) << r;
    for (int64_t n = 2; n < 70; n += 3) {
      const int64_t begin = n * 37 % (h.n_keys - n);
      EXPECT_EQ(run(*kernels, h, begin, n), rows(begin, n)) << n << " rows from " << begin;
    }
  }
}

KDA_FOR_EVERY_KERNEL_SET(MlaHeadTest);

}  // namespace
}  // namespace kda
