// A KDA layer between its projections, against plain double precision and against vectors of a GPU program.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/json.h"
#include "ops/kda_head.h"
#include "support/shared_data.h"
#include "unit/kernels/kernel_sets.h"
#include "unit/ops/ops_support.h"

namespace kda {
namespace {

using test::Matrix;
using test::OpsBox;

// Inputs and state of one layer.
struct Layer {
  Layer(int64_t n_tokens, int64_t n_heads_, int64_t dim_, int64_t taps_, uint32_t seed)
      : n_heads(n_heads_),
        dim(dim_),
        taps(taps_),
        width(n_heads_ * dim_),
        q(n_tokens, width, seed),
        k(n_tokens, width, seed + 1),
        v(n_tokens, width, seed + 2),
        f(n_tokens, width, seed + 3),
        beta(n_tokens, n_heads, seed + 4),
        gate(n_tokens, width, seed + 5),
        conv(3 * taps, width, seed + 6, 0.5F),
        a(1, n_heads, seed + 7),
        dt(1, width, seed + 8),
        o_norm(1, dim, seed + 9),
        state(width, dim),
        tail(3 * (taps - 1), width),
        out(n_tokens, width),
        raw_out(n_tokens, width) {
    for (float& value : a.values) value = -std::exp(value);
  }

  KdaRows rows(int64_t begin, int64_t n) {
    return {.q = q.view(begin, n),
            .k = k.view(begin, n),
            .v = v.view(begin, n),
            .f = f.view(begin, n),
            .beta = beta.view(begin, n)};
  }

  KdaOp op(int64_t begin, int64_t n) {
    return {.n_heads = n_heads,
            .head_dim = dim,
            .taps = taps,
            .x = rows(begin, n),
            .gate = gate.view(begin, n),
            .conv = {&conv.at(0, 0), &conv.at(taps, 0), &conv.at(2 * taps, 0)},
            .a = a.values,
            .dt_bias = dt.values,
            .o_norm = o_norm.values,
            .qk_norm_eps = 1e-6F,
            .o_norm_eps = 1e-5F,
            .state = state.values.data(),
            .conv_tail = tail.values.data(),
            .out = out.view(begin, n)};
  }

  int64_t n_heads, dim, taps, width;
  Matrix q, k, v, f, beta, gate, conv, a, dt, o_norm, state, tail, out, raw_out;
};

// The same in double, straight from the equations, from an empty state.
struct DoubleResult {
  std::vector<double> out, state;
};
DoubleResult in_double(Layer& layer) {
  const int64_t n = layer.q.n_rows;
  const int64_t dim = layer.dim;
  DoubleResult result;
  result.out.resize(static_cast<size_t>(n * layer.width));
  result.state.resize(static_cast<size_t>(layer.width * dim));
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  Matrix* const inputs[] = {&layer.q, &layer.k, &layer.v};
  for (int64_t h = 0; h < layer.n_heads; ++h) {
    double* state = result.state.data() + h * dim * dim;
    for (int64_t t = 0; t < n; ++t) {
      std::vector<double> vectors[3];
      for (int64_t s = 0; s < 3; ++s) {
        double squares = 0;
        for (int64_t i = 0; i < dim; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < layer.taps; ++j) {
            const int64_t from = t - (layer.taps - 1) + j;
            if (from >= 0)
              sum += double{layer.conv.at(s * layer.taps + j, h * dim + i)} * inputs[s]->at(from, h * dim + i);
          }
          vectors[s].push_back(sum * sigmoid(sum));
          squares += vectors[s].back() * vectors[s].back();
        }
        if (s == 2) continue;
        const double scale = s == 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
        for (double& x : vectors[s]) x *= scale / std::sqrt(squares + 1e-6);
      }
      const double beta = sigmoid(layer.beta.at(t, h));
      for (int64_t i = 0; i < dim; ++i) {
        const double z = double{layer.f.at(t, h * dim + i)} + layer.dt.at(0, h * dim + i);
        const double g = layer.a.at(0, h) * (std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))));
        for (int64_t j = 0; j < dim; ++j) state[j * dim + i] *= std::exp(g);
      }
      double squares = 0;
      std::vector<double> o;
      for (int64_t j = 0; j < dim; ++j) {
        double seen = 0;
        for (int64_t i = 0; i < dim; ++i) seen += state[j * dim + i] * vectors[1][static_cast<size_t>(i)];
        const double delta = beta * (vectors[2][static_cast<size_t>(j)] - seen);
        o.push_back(0);
        for (int64_t i = 0; i < dim; ++i) {
          state[j * dim + i] += delta * vectors[1][static_cast<size_t>(i)];
          o.back() += state[j * dim + i] * vectors[0][static_cast<size_t>(i)];
        }
        squares += o.back() * o.back();
      }
      for (int64_t j = 0; j < dim; ++j) {
        result.out[static_cast<size_t>(t * layer.width + h * dim + j)] =
            o[static_cast<size_t>(j)] / std::sqrt(squares / static_cast<double>(dim) + 1e-5) * layer.o_norm.at(0, j) *
            sigmoid(layer.gate.at(t, h * dim + j));
      }
    }
  }
  return result;
}

double relative_error(const std::vector<float>& actual, const std::vector<double>& expected) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

class KdaOpTest : public test::KernelSetTest {};

TEST_P(KdaOpTest, FollowsTheEquationsInDouble) {
  Layer layer(70, 3, 48, 4, 1);
  const DoubleResult expected = in_double(layer);
  OpsBox(2, *kernels, {.kda_head_dim = 48, .kda_taps = 4})->kda(layer.op(0, 70));
  EXPECT_LT(relative_error(layer.out.values, expected.out), 1e-6);
  EXPECT_LT(relative_error(layer.state.values, expected.state), 1e-6);
}

TEST_P(KdaOpTest, StaysCloseOverThousandsOfTokensWithDecaysFromNoneToTotal) {
  constexpr int64_t kTokens = 4096;
  Layer layer(kTokens, 2, 32, 4, 2);
  std::mt19937 random(3);
  for (int64_t i = 0; i < layer.width; ++i) {
    layer.dt.at(0, i) = 0;
    layer.a.at(0, i / 32) = -1;
    for (int64_t t = 0; t < kTokens; ++t) {
      // Half of the channels hardly forget (a decay of 0.99992); one token in 500 forgets everything (log decay -2661).
      layer.f.at(t, i) = i % 2 == 0 ? std::log(std::expm1(8e-5F)) : -3.0F;
      if (i % 2 == 1 && random() % 500 == 0) layer.f.at(t, i) = 2661;
    }
  }
  const DoubleResult expected = in_double(layer);
  OpsBox(2, *kernels, {.kda_head_dim = 32, .kda_taps = 4})->kda(layer.op(0, kTokens));
  EXPECT_LT(relative_error(layer.out.values, expected.out), 1e-5);
  EXPECT_LT(relative_error(layer.state.values, expected.state), 1e-5);
}

TEST_P(KdaOpTest, BitsDependNeitherOnCutsNorOnThreads) {
  for (const int64_t taps : {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{7}}) {
    Layer whole(100, 3, 40, taps, 4);
    OpsBox(1, *kernels, {.kda_head_dim = 40, .kda_taps = 7})->kda(whole.op(0, 100));
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{1, 2, 4, 37, 69, 100}, {32, 64, 65, 66, 67, 100}}) {
      Layer cut(100, 3, 40, taps, 4);
      OpsBox ops(3, *kernels, {.kda_head_dim = 40, .kda_taps = 7});
      int64_t begin = 0;
      for (const int64_t end : cuts) {
        ops->kda(cut.op(begin, end - begin));
        begin = end;
      }
      EXPECT_EQ(cut.out.values, whole.out.values) << taps;
      EXPECT_EQ(cut.state.values, whole.state.values) << taps;
      EXPECT_EQ(cut.tail.values, whole.tail.values) << taps;
    }
  }
}

// Rows 10 to 16 go through tentatively, 3 of them turn out right.
TEST_P(KdaOpTest, TentativeRowsCanBeTakenBack) {
  for (const int64_t taps : {int64_t{1}, int64_t{4}, int64_t{7}}) {
    Layer plain(30, 3, 40, taps, 4);
    Layer layer(30, 3, 40, taps, 4);
    OpsBox ops(3, *kernels, {.kda_head_dim = 40, .kda_taps = 7});
    ops->kda(plain.op(0, 30));
    ops->kda(layer.op(0, 10));
    const std::vector<float> state = layer.state.values;
    const std::vector<float> tail = layer.tail.values;

    KdaOp guess = layer.op(10, 7);
    guess.tentative = true;
    ops->kda(guess);
    EXPECT_EQ(layer.state.values, state);
    EXPECT_EQ(layer.tail.values, tail);
    for (int64_t t = 10; t < 17; ++t) {
      for (int64_t i = 0; i < layer.width; ++i) ASSERT_EQ(layer.out.at(t, i), plain.out.at(t, i)) << t;
    }

    KdaOp again = layer.op(13, 6);  // on top of the three, again tentatively; one is right
    again.pending = layer.rows(10, 3);
    again.tentative = true;
    ops->kda(again);
    KdaOp rest = layer.op(14, 16);
    rest.pending = layer.rows(13, 1);
    ops->kda(rest);
    EXPECT_EQ(layer.out.values, plain.out.values);
    EXPECT_EQ(layer.state.values, plain.state.values);
    EXPECT_EQ(layer.tail.values, plain.tail.values);
  }
}

TEST_P(KdaOpTest, PendingRowsEnterTheStateAlone) {
  Layer plain(12, 2, 32, 4, 5);
  Layer layer(12, 2, 32, 4, 5);
  OpsBox ops(2, *kernels, {.kda_head_dim = 32, .kda_taps = 4});
  ops->kda(plain.op(0, 12));
  ops->kda(layer.op(0, 7));
  KdaOp op = layer.op(0, 0);
  op.pending = layer.rows(7, 5);
  ops->kda(op);
  EXPECT_EQ(layer.state.values, plain.state.values);
  EXPECT_EQ(layer.tail.values, plain.tail.values);
}

TEST_P(KdaOpTest, TracingChangesNothing) {
  Layer plain(50, 2, 32, 4, 5);
  Layer traced(50, 2, 32, 4, 5);
  OpsBox ops(2, *kernels, {.kda_head_dim = 32, .kda_taps = 4});
  ops->kda(plain.op(0, 50));
  KdaOp op = traced.op(0, 50);
  op.trace = true;
  op.raw_out = traced.raw_out.view();
  ops->kda(op);
  EXPECT_EQ(traced.out.values, plain.out.values);
  EXPECT_EQ(traced.state.values, plain.state.values);
  EXPECT_NE(traced.q.values, plain.q.values);
}

TEST_P(KdaOpTest, StepsAgreeWithTheVectorsOfAGpuProgram) {
  KDA_SHARED_OR_SKIP(shared);
  const Json file = read_json_file(shared / "data" / "goldens" / "kda-step-vectors.json");
  for (const Json& c : file.at("cases")) {
    const auto values = [&](const char* name) { return c.at(name).get<std::vector<float>>(); };
    const auto n_heads = c.at("heads").get<int64_t>();
    const auto dim = c.at("head_dim").get<int64_t>();
    Layer layer(1, n_heads, dim, 4, 1);
    const char* const names[] = {"q", "k", "v"};
    Matrix* const inputs[] = {&layer.q, &layer.k, &layer.v};
    for (int64_t s = 0; s < 3; ++s) {
      const auto weight = values((std::string("conv.") + names[s] + ".weight").c_str());        // [C, 4]
      const auto window = values((std::string("conv.") + names[s] + ".window_after").c_str());  // [C, 4]
      for (int64_t i = 0; i < layer.width; ++i) {
        for (int64_t j = 0; j < 4; ++j) {
          const auto from = static_cast<size_t>(i * 4 + j);
          layer.conv.at(s * 4 + j, i) = weight[from];
          if (j < 3) {
            layer.tail.at(s * 3 + j, i) = window[from];
          } else {
            inputs[s]->at(0, i) = window[from];
          }
        }
      }
    }
    // The vectors' gate has another form: its log decay is turned into an input of ours, which gives it back.
    layer.a.values.assign(layer.a.values.size(), -1);
    layer.dt.values.assign(layer.dt.values.size(), 0);
    const auto log_decay = c.at("derived.log_decay").get<std::vector<double>>();
    for (size_t i = 0; i < log_decay.size(); ++i)
      layer.f.values[i] = static_cast<float>(std::log(std::expm1(-log_decay[i])));
    layer.beta.values = values("in.beta");
    layer.gate.values = values("in.g_proj");
    layer.o_norm.values = values("in.o_norm_weight");
    layer.state.values = values("in.initial_state");
    KdaOp op = layer.op(0, 1);
    op.trace = true;
    op.raw_out = layer.raw_out.view();
    OpsBox(2, *kernels, {.kda_head_dim = dim, .kda_taps = 4})->kda(op);
    const auto expect_near = [&](const std::vector<float>& actual, const char* name, float tolerance) {
      const auto expected = values(name);
      ASSERT_EQ(actual.size(), expected.size()) << name;
      for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << name << " " << i;
    };
    expect_near(layer.raw_out.values, "out.o", 1e-8F);  // the largest is 4e-3
    expect_near(layer.state.values, "out.state", 1e-6F);
    expect_near(layer.out.values, "out.o_norm_gated", 1e-6F);
  }
}

KDA_FOR_EVERY_KERNEL_SET(KdaOpTest);

}  // namespace
}  // namespace kda
