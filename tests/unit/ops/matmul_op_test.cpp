#include <gtest/gtest.h>

#include <numeric>

#include "quant/codec.h"
#include "unit/kernels/kernel_sets.h"
#include "unit/ops/ops_support.h"

namespace kda {
namespace {

using test::Matrix;
using test::OpsBox;

// A weight matrix in some type, with the values it stands for.
struct Weights {
  Weights(TensorType type_, int64_t rows_, int64_t cols_, uint32_t seed)
      : type(type_), rows(rows_), cols(cols_), values(rows_, cols_, seed) {
    const int64_t bytes = row_bytes(type, cols);
    data.resize(static_cast<size_t>(rows * bytes));
    for (int64_t r = 0; r < rows; ++r) {
      quantize_row(type, &values.at(r, 0), data.data() + r * bytes, cols);
      dequantize_row(type, data.data() + r * bytes, &values.at(r, 0), cols);
    }
  }
  [[nodiscard]] QMatView view() const { return {type, data.data(), rows, cols, row_bytes(type, cols)}; }

  TensorType type;
  int64_t rows, cols;
  Matrix values;
  std::vector<std::byte> data;
};

class MatmulOpTest : public test::KernelSetTest {
 protected:
  // |x . w - y| against the size of the terms. int8 activations are off by half a step of max|x| / 127 each.
  static void expect_product(Matrix& x, int64_t x_row, Weights& w, Matrix& y, int64_t y_row, double tolerance) {
    for (int64_t r = 0; r < w.rows; ++r) {
      double sum = 0;
      double size = 0;
      for (int64_t i = 0; i < w.cols; ++i) {
        const double term = double{x.at(x_row, i)} * w.values.at(r, i);
        sum += term;
        size += std::fabs(term);
      }
      ASSERT_NEAR(y.at(y_row, r), sum, tolerance * size) << "row " << r;
    }
  }
};

TEST_P(MatmulOpTest, SeveralProductsInOnePhaseForAnyNumberOfThreads) {
  Weights f32(TensorType::kF32, 37, 96, 1);
  Weights q8(TensorType::kQ8_0, 200, 96, 2);
  Weights other(TensorType::kF32, 5, 64, 3);
  for (const int64_t n : {int64_t{1}, int64_t{3}, int64_t{130}}) {
    Matrix x(n, 96, 4);
    Matrix x2(n, 64, 5);
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      OpsBox ops(threads, *kernels, {.max_cols = 96});
      AlignedBuffer memory(size_t{1} << 20);
      Arena arena({memory.data(), memory.size_bytes()});
      Activation a(arena, n, 96);
      Activation b(arena, n, 64);
      a.set(x.view());
      b.set(x2.view());
      Matrix y1(n, 37), y2(n, 200), y3(n, 5), y4(n, 200);
      const Product products[] = {{&a, f32.view(), y1.view()},
                                  {&a, q8.view(), y2.view()},
                                  {&b, other.view(), y3.view()},
                                  {&a, q8.view(), y4.view(), true}};
      ops->matmul(products);
      for (int64_t t = 0; t < n; ++t) {
        expect_product(x, t, f32, y1, t, 1e-6);
        expect_product(x, t, q8, y2, t, 2e-2);
        expect_product(x2, t, other, y3, t, 1e-6);
        expect_product(x, t, q8, y4, t, 1e-6);
      }
      std::vector<float> all = y1.values;
      for (const Matrix* y : {&y2, &y3, &y4}) all.insert(all.end(), y->values.begin(), y->values.end());
      if (first.empty()) first = all;
      EXPECT_EQ(all, first) << threads;
    }
  }
}

TEST_P(MatmulOpTest, SettingAnActivationDropsItsInt8Forms) {
  Weights w(TensorType::kQ8_0, 16, 64, 1);
  OpsBox ops(1, *kernels, {.max_cols = 64});
  AlignedBuffer memory(size_t{1} << 16);
  Arena arena({memory.data(), memory.size_bytes()});
  Activation a(arena, 2, 64);
  Matrix x(2, 64, 2), y(2, 16);
  for (const uint32_t seed : {3U, 4U}) {
    x = Matrix(2, 64, seed);
    a.set(x.view());
    const Product products[] = {{&a, w.view(), y.view()}};
    ops->matmul(products);
    for (int64_t t = 0; t < 2; ++t) expect_product(x, t, w, y, t, 2e-2);
  }
}

TEST_P(MatmulOpTest, GroupsSendRowsThroughTheirMatrices) {
  constexpr int64_t kExperts = 5;
  std::vector<Weights> experts;
  std::vector<const std::byte*> data;
  experts.reserve(kExperts);
  for (uint32_t e = 0; e < kExperts; ++e) {
    experts.emplace_back(TensorType::kQ8_0, 48, 64, e);
    data.push_back(experts.back().data.data());
  }
  const QMatsView w = {TensorType::kQ8_0, data, 48, 64, row_bytes(TensorType::kQ8_0, 64)};
  // experts 1 and 4 get tokens (2, 0, 3) and (2, 1)
  const std::vector<int32_t> matrix = {1, 4}, begin = {0, 3, 5}, x_rows = {2, 0, 3, 2, 1}, y_rows = {4, 0, 3, 2, 1};
  const Grouping grouping = {2, matrix.data(), begin.data(), x_rows.data(), y_rows.data()};
  Weights shared(TensorType::kF32, 10, 64, 9);
  Matrix x(4, 64, 7);
  for (const int threads : {1, 3}) {
    OpsBox ops(threads, *kernels, {.max_cols = 64});
    AlignedBuffer memory(size_t{1} << 16);
    Arena arena({memory.data(), memory.size_bytes()});
    Activation a(arena, 4, 64);
    a.set(x.view());
    Matrix y(5, 48), y_shared(4, 10);
    const GroupedProduct grouped[] = {{&a, &w, y.view(), &grouping}};
    const Product products[] = {{&a, shared.view(), y_shared.view()}};
    ops->matmul(products, grouped);
    for (size_t i = 0; i < x_rows.size(); ++i) expect_product(x, x_rows[i], experts[i < 3 ? 1 : 4], y, y_rows[i], 2e-2);
    for (int64_t t = 0; t < 4; ++t) expect_product(x, t, shared, y_shared, t, 1e-6);
  }
}

TEST_P(MatmulOpTest, ExactActivationsHoldForEveryProduct) {
  Weights w(TensorType::kQ8_0, 16, 64, 1);
  OpsBox ops(2, *kernels, {.max_cols = 64}, true);
  AlignedBuffer memory(size_t{1} << 16);
  Arena arena({memory.data(), memory.size_bytes()});
  Activation a(arena, 1, 64);
  Matrix x(1, 64, 2), y(1, 16);
  a.set(x.view());
  const Product products[] = {{&a, w.view(), y.view()}};
  ops->matmul(products);
  expect_product(x, 0, w, y, 0, 1e-6);
}

KDA_FOR_EVERY_KERNEL_SET(MatmulOpTest);

}  // namespace
}  // namespace kda
