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

// Inputs of one head, as the layer prepares them: q and k of length one (q then scaled), gates of every strength.
struct Head {
  Head(int64_t n_tokens_, int64_t dim_k_, int64_t dim_v_, uint32_t seed)
      : n_tokens(n_tokens_), dim_k(dim_k_), dim_v(dim_v_), stride_qk(dim_k_ + 5), stride_v(dim_v_ + 3) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& values, int64_t count) {
      values.resize(static_cast<size_t>(count));
      for (float& value : values) value = normal(random);
    };
    fill(q, n_tokens * stride_qk);
    fill(k, n_tokens * stride_qk);
    fill(v, n_tokens * stride_v);
    fill(state, dim_v * dim_k);
    for (int64_t t = 0; t < n_tokens; ++t) {
      normalize(q.data() + t * stride_qk, 1 / std::sqrt(static_cast<float>(dim_k)));
      normalize(k.data() + t * stride_qk, 1);
    }
    constexpr float kGates[] = {0, -1e-6F, -0.1F, -8, -200, -2661};
    std::uniform_real_distribution<float> uniform;
    log_decay.resize(q.size());
    for (float& g : log_decay) g = random() % 4 == 0 ? kGates[random() % 6] : -0.2F * uniform(random);
    beta.resize(static_cast<size_t>(n_tokens * kStrideBeta));
    for (float& b : beta) b = uniform(random);
  }

  void normalize(float* x, float length) const {
    float sum = 0;
    for (int64_t i = 0; i < dim_k; ++i) sum += x[i] * x[i];
    for (int64_t i = 0; i < dim_k; ++i) x[i] *= length / std::sqrt(sum);
  }

  static constexpr int64_t kStrideBeta = 2;
  int64_t n_tokens, dim_k, dim_v, stride_qk, stride_v;
  std::vector<float> q, k, v, log_decay, beta;
  std::vector<float> state;  // [dim_v, dim_k]
};

struct Result {
  std::vector<float> o;  // [T, dim_v]
  std::vector<float> state;
  bool operator==(const Result&) const = default;
};

// Runs the tokens in pieces of the given lengths. State and each piece's rows end at an unreadable page.
Result run(const KernelTable& kernels, const Head& head, const std::vector<int64_t>& pieces) {
  const test::GuardedBuffer state(head.state.size() * 4);
  std::memcpy(state.data(), head.state.data(), state.size_bytes());
  Result result;
  int64_t t = 0;
  for (const int64_t n : pieces) {
    // The last row has no padding behind it.
    const auto floats_qk = static_cast<size_t>(n == 0 ? 0 : (n - 1) * head.stride_qk + head.dim_k);
    const auto floats_v = static_cast<size_t>(n == 0 ? 0 : (n - 1) * head.stride_v + head.dim_v);
    const test::GuardedBuffer q(floats_qk * 4), k(floats_qk * 4), g(floats_qk * 4), v(floats_v * 4), o(floats_v * 4);
    std::copy_n(head.q.data() + t * head.stride_qk, floats_qk, q.as<float>());
    std::copy_n(head.k.data() + t * head.stride_qk, floats_qk, k.as<float>());
    std::copy_n(head.log_decay.data() + t * head.stride_qk, floats_qk, g.as<float>());
    std::copy_n(head.v.data() + t * head.stride_v, floats_v, v.as<float>());
    KdaHeadArgs args;
    args.n_tokens = n;
    args.dim_k = head.dim_k;
    args.dim_v = head.dim_v;
    args.stride_qk = head.stride_qk;
    args.stride_v = head.stride_v;
    args.q = q.as<float>();
    args.k = k.as<float>();
    args.v = v.as<float>();
    args.log_decay = g.as<float>();
    args.beta = head.beta.data() + t * Head::kStrideBeta;
    args.stride_beta = Head::kStrideBeta;
    args.state = state.as<float>();
    args.o = o.as<float>();
    kernels.kda_head(args);
    for (int64_t i = 0; i < n; ++i) {
      result.o.insert(result.o.end(), args.o + i * head.stride_v, args.o + i * head.stride_v + head.dim_v);
    }
    t += n;
  }
  result.state.assign(state.as<float>(), state.as<float>() + head.state.size());
  return result;
}

class KdaHeadTest : public test::KernelSetTest {};

// The recurrence in double, written token by token and channel by channel, with S [dim_k][dim_v] as in the paper.
TEST_P(KdaHeadTest, FollowsTheRecurrenceInDouble) {
  struct Shape {
    int64_t n_tokens, dim_k, dim_v;
  };
  for (const auto& [n_tokens, dim_k, dim_v] : {Shape{1, 128, 128}, Shape{200, 128, 128}, Shape{65, 64, 96},
                                               Shape{40, 96, 20}, Shape{33, 7, 5}, Shape{9, 1, 1}, Shape{16, 300, 3}}) {
    SCOPED_TRACE(testing::Message() << n_tokens << " tokens, " << dim_k << " by " << dim_v);
    const Head head(n_tokens, dim_k, dim_v, 5);
    const Result result = run(*kernels, head, {n_tokens});

    const auto at = [dim_v = dim_v](int64_t i, int64_t j) { return static_cast<size_t>(i * dim_v + j); };
    std::vector<double> s(head.state.size());
    for (int64_t i = 0; i < dim_k; ++i) {
      for (int64_t j = 0; j < dim_v; ++j) s[at(i, j)] = head.state[static_cast<size_t>(j * dim_k + i)];
    }
    // Errors add up: I - beta k k^T and the decay never lengthen a row of the state, and a token adds the rounding of
    // two dot products over dim_k and of the update, relative to the longest row and the values.
    double error = 0;
    for (int64_t t = 0; t < n_tokens; ++t) {
      const float* q = head.q.data() + t * head.stride_qk;
      const float* k = head.k.data() + t * head.stride_qk;
      const float* g = head.log_decay.data() + t * head.stride_qk;
      double longest = 0;
      std::vector<double> o(static_cast<size_t>(dim_v));
      for (int64_t j = 0; j < dim_v; ++j) {
        double prediction = 0;
        double length = 0;
        for (int64_t i = 0; i < dim_k; ++i) {
          s[at(i, j)] *= std::exp(double{g[i]});
          prediction += s[at(i, j)] * k[i];
          length += s[at(i, j)] * s[at(i, j)];
        }
        const double value = head.v[static_cast<size_t>(t * head.stride_v + j)];
        const double delta = head.beta[static_cast<size_t>(t * Head::kStrideBeta)] * (value - prediction);
        for (int64_t i = 0; i < dim_k; ++i) {
          s[at(i, j)] += k[i] * delta;
          o[static_cast<size_t>(j)] += s[at(i, j)] * q[i];
        }
        longest = std::max(longest, std::sqrt(length) + std::abs(value));
      }
      error += static_cast<double>(dim_k + 16) * test::kUnit * longest;
      for (int64_t j = 0; j < dim_v; ++j) {
        EXPECT_NEAR(result.o[static_cast<size_t>(t * dim_v + j)], o[static_cast<size_t>(j)], error) << t << ", " << j;
      }
    }
    for (int64_t i = 0; i < dim_k; ++i) {
      for (int64_t j = 0; j < dim_v; ++j) {
        EXPECT_NEAR(result.state[static_cast<size_t>(j * dim_k + i)], s[at(i, j)], error);
      }
    }
  }
}

// Computed by hand in double precision; the published worked example of the recurrence.
TEST_P(KdaHeadTest, GivesTheWorkedExample) {
  const float scale = 1 / std::sqrt(2.0F);
  const float q[] = {1 * scale, 0, 0.6F * scale, 0.8F * scale, 0, 1 * scale};
  const float k[] = {0.8F, 0.6F, 1, 0, 0.6F, -0.8F};
  const float v[] = {1, 2, -1, 0.5F, 0.25F, 3};
  const float g[] = {-0.1F, -0.5F, -1, -0.2F, -0.3F, -2};
  const float beta[] = {0.5F, 0.9F, 0.25F};
  float state[] = {0.5F, 0.1F, -0.25F, 0.2F};  // [value][key]
  float o[6] = {};
  KdaHeadArgs args;
  args.n_tokens = 3;
  args.dim_k = args.dim_v = args.stride_qk = args.stride_v = 2;
  args.q = q;
  args.k = k;
  args.v = v;
  args.log_decay = g;
  args.beta = beta;
  args.stride_beta = 1;
  args.state = state;
  args.o = o;
  kernels->kda_head(args);
  const float expected_o[] = {0.490087215F, 0.436330257F, -0.259330566F, 0.549649899F, -0.074455718F, -0.344942040F};
  const float expected_state[] = {-0.548834780F, -0.105296286F, 0.778690791F, -0.487821712F};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(o[i], expected_o[i], 5e-7) << i;
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(state[i], expected_state[i], 5e-7) << i;
}

TEST_P(KdaHeadTest, AnyCuttingOfTheTokensGivesTheSameBits) {
  for (const auto& [dim_k, dim_v] : {std::pair<int64_t, int64_t>{128, 128}, {64, 33}, {9, 4}}) {
    const Head head(67, dim_k, dim_v, 6);
    const Result single = run(*kernels, head, std::vector<int64_t>(67, 1));
    EXPECT_EQ(run(*kernels, head, {67}), single);
    EXPECT_EQ(run(*kernels, head, {16, 16, 16, 16, 3}), single);
    EXPECT_EQ(run(*kernels, head, {1, 2, 63, 1}), single);
    EXPECT_EQ(run(*kernels, head, {31, 0, 33, 3}), single);
  }
}

TEST_P(KdaHeadTest, NoTokensLeaveTheStateAlone) {
  const Head head(0, 16, 16, 7);
  EXPECT_EQ(run(*kernels, head, {0}).state, head.state);
}

KDA_FOR_EVERY_KERNEL_SET(KdaHeadTest);

}  // namespace
}  // namespace kda
