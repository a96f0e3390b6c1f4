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

struct Attention {
  Attention(std::vector<int64_t> n_keys_, int64_t dim_qk_, int64_t dim_v_, float strength, uint32_t seed)
      : n_keys(std::move(n_keys_)), dim_qk(dim_qk_), dim_v(dim_v_), scale(1 / std::sqrt(static_cast<float>(dim_qk_))) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    q.resize(n_keys.size() * static_cast<size_t>(dim_qk));
    for (float& x : q) x = strength * normal(random);
    cache.resize(static_cast<size_t>(*std::max_element(n_keys.begin(), n_keys.end()) * dim_qk));
    for (float& x : cache) x = normal(random);
  }

  std::vector<int64_t> n_keys;  // a row
  int64_t dim_qk, dim_v;
  float scale;
  std::vector<float> q;      // [rows, dim_qk]
  std::vector<float> cache;  // [keys, dim_qk]
};

// Contexts [chosen rows, dim_v] of the chosen rows, computed in one call. The cache ends after the last key any of them
// sees.
std::vector<float> run(const KernelTable& kernels, const Attention& a, const std::vector<size_t>& rows) {
  int64_t most = 0;
  std::vector<int64_t> n_keys;
  for (const size_t r : rows) {
    n_keys.push_back(a.n_keys[r]);
    most = std::max(most, a.n_keys[r]);
  }
  const test::GuardedBuffer cache(static_cast<size_t>(most * a.dim_qk) * 4);
  std::memcpy(cache.data(), a.cache.data(), cache.size_bytes());
  const test::GuardedBuffer q(rows.size() * static_cast<size_t>(a.dim_qk) * 4);
  const test::GuardedBuffer ctx(rows.size() * static_cast<size_t>(a.dim_v) * 4);
  const auto n_rows = static_cast<int64_t>(rows.size());
  const test::GuardedBuffer scratch(static_cast<size_t>(mla_scratch_floats(n_rows)) * 4);
  std::vector<SoftmaxState> states(rows.size());
  std::vector<const float*> q_rows;
  std::vector<float*> ctx_rows;
  for (int64_t i = 0; i < n_rows; ++i) {
    const float* from = a.q.data() + rows[static_cast<size_t>(i)] * static_cast<size_t>(a.dim_qk);
    std::copy_n(from, a.dim_qk, q.as<float>() + i * a.dim_qk);
    q_rows.push_back(q.as<float>() + i * a.dim_qk);
    ctx_rows.push_back(ctx.as<float>() + i * a.dim_v);
  }
  std::memset(ctx.data(), 0xFF, ctx.size_bytes());  // NaN: what was there must not matter
  std::memset(scratch.data(), 0xFF, scratch.size_bytes());
  MlaAttendArgs args;
  args.n_rows = n_rows;
  args.dim_qk = a.dim_qk;
  args.dim_v = a.dim_v;
  args.scale = a.scale;
  args.q = q_rows.data();
  args.ctx = ctx_rows.data();
  args.states = states.data();
  args.n_keys = n_keys.data();
  args.cache = cache.as<float>();
  args.key_end = most;
  args.scratch = scratch.as<float>();
  kernels.mla_attend(args);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int64_t j = 0; j < a.dim_v; ++j) ctx_rows[i][j] /= states[i].sum;
  }
  return {ctx.as<float>(), ctx.as<float>() + n_rows * a.dim_v};
}

std::vector<size_t> all_rows(const Attention& a) {
  std::vector<size_t> rows(a.n_keys.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

class MlaAttendTest : public test::KernelSetTest {};

TEST_P(MlaAttendTest, IsTheSoftmaxComputedInDouble) {
  struct Shape {
    std::vector<int64_t> n_keys;
    int64_t dim_qk, dim_v;
    float strength;
  };
  for (const auto& [n_keys, dim_qk, dim_v, strength] :
       {Shape{{1}, 576, 512, 1}, Shape{{1, 2, 3, 63, 64, 65, 127, 128, 129, 200}, 576, 512, 1},
        Shape{{300, 300, 300, 300, 300, 299, 299, 299, 299, 299, 298}, 96, 64, 8}, Shape{{77, 78, 79}, 13, 5, 3},
        Shape{{1000}, 40, 40, 0}, Shape{{130, 131}, 1, 1, 20}}) {
    const Attention a(n_keys, dim_qk, dim_v, strength, 41);
    const std::vector<float> ctx = run(*kernels, a, all_rows(a));
    for (size_t r = 0; r < n_keys.size(); ++r) {
      const auto n = static_cast<size_t>(n_keys[r]);
      std::vector<double> score(n);
      double largest_sum = 0;
      for (size_t key = 0; key < n; ++key) {
        double magnitude = 0;
        for (size_t i = 0; i < static_cast<size_t>(dim_qk); ++i) {
          const double product = double{a.q[r * static_cast<size_t>(dim_qk) + i]} *
                                 a.cache[key * static_cast<size_t>(dim_qk) + i] * a.scale;
          score[key] += product;
          magnitude += std::abs(product);
        }
        largest_sum = std::max(largest_sum, magnitude);
      }
      const double max = *std::max_element(score.begin(), score.end());
      double total = 0;
      for (double& s : score) total += s = std::exp(s - max);
      // A score is off by the rounding of a dot product, so a weight by that relative error and that of exp (a few
      // units) and of being rescaled; the total likewise; the sum over keys rounds once more each.
      const double weight_error = (2 * static_cast<double>(dim_qk + 4) * largest_sum + 16) * test::kUnit;
      const double relative = 2 * weight_error + static_cast<double>(n + 4) * 2 * test::kUnit;
      for (size_t i = 0; i < static_cast<size_t>(dim_v); ++i) {
        double expected = 0;
        double magnitude = 0;
        for (size_t key = 0; key < n; ++key) {
          const double part = score[key] / total * a.cache[key * static_cast<size_t>(dim_qk) + i];
          expected += part;
          magnitude += std::abs(part);
        }
        EXPECT_NEAR(ctx[r * static_cast<size_t>(dim_v) + i], expected, relative * magnitude)
            << n << " keys, row " << r << ", channel " << i;
      }
    }
  }
}

TEST_P(MlaAttendTest, ARowsBitsDoNotDependOnTheOtherRows) {
  std::vector<int64_t> n_keys;
  for (int64_t r = 0; r < 45; ++r) n_keys.push_back(1 + r * 37 % 211);
  for (const auto& [dim_qk, dim_v] : {std::pair<int64_t, int64_t>{576, 512}, {29, 11}}) {
    const Attention a(n_keys, dim_qk, dim_v, 2, 42);
    const std::vector<float> together = run(*kernels, a, all_rows(a));
    const auto context = [&, dim_v = dim_v](const std::vector<float>& of, size_t row) {
      const auto* first = of.data() + row * static_cast<size_t>(dim_v);
      return std::vector<float>(first, first + dim_v);
    };
    for (size_t r = 0; r < n_keys.size(); ++r) {
      EXPECT_EQ(run(*kernels, a, {r}), context(together, r)) << r;
    }
    for (size_t n = 2; n < 10; ++n) {
      std::vector<size_t> group;
      for (size_t i = 0; i < n; ++i) group.push_back((n * 7 + i * 5) % n_keys.size());
      const std::vector<float> ctx = run(*kernels, a, group);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(context(ctx, i), context(together, group[i])) << n << ", " << i;
    }
  }
}

TEST_P(MlaAttendTest, HugeScoresPickTheLargestKey) {
  constexpr int64_t kKeys = 150;
  for (const float huge : {1e4F, 1e15F, 1e30F}) {
    for (const size_t winner : {size_t{0}, size_t{63}, size_t{64}, size_t{149}}) {
      Attention a({kKeys}, 8, 4, 1, 43);
      a.scale = 1;
      for (size_t i = 0; i < 8; ++i) a.q[i] = i == 7 ? huge : 0;
      for (size_t key = 0; key < kKeys; ++key) a.cache[key * 8 + 7] = key == winner ? 1.0F : -1.0F;
      const std::vector<float> ctx = run(*kernels, a, {0});
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(ctx[i], a.cache[winner * 8 + i]) << huge << ", " << winner;
    }
  }
}

TEST_P(MlaAttendTest, EqualHugeScoresGiveTheMean) {
  constexpr int64_t kKeys = 128;
  Attention a({kKeys}, 8, 4, 1, 44);
  a.scale = 1;
  for (size_t i = 0; i < 8; ++i) a.q[i] = i == 7 ? -1e20F : 0;
  for (size_t key = 0; key < kKeys; ++key) {
    a.cache[key * 8 + 7] = 3;
    for (size_t i = 0; i < 4; ++i) a.cache[key * 8 + i] = static_cast<float>(key);
  }
  for (const float mean : run(*kernels, a, {0})) EXPECT_EQ(mean, 63.5F);
}

KDA_FOR_EVERY_KERNEL_SET(MlaAttendTest);

}  // namespace
}  // namespace kda
