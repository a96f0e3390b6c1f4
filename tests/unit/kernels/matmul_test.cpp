#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernel_sets.h"
#include "quant/codec.h"
#include "support/guarded_buffer.h"
#include "support/random_blocks.h"

namespace kda {
namespace {

constexpr float kUntouched = -12345.0F;

std::vector<TensorType> weight_types() {
  std::vector<TensorType> types;
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* info = find_tensor_type(number);
    if (info != nullptr && info->is_weight) types.push_back(info->type);
  }
  return types;
}

// A matrix that ends at an unreadable page, and what it stands for.
struct Weights {
  Weights(TensorType type_, int64_t rows_, int64_t k_, uint32_t seed) : Weights(type_, rows_, k_) {
    std::mt19937 random(seed);
    for (int64_t r = 0; r < rows; ++r) test::fill_random_row(type, k, random, row(r));
    decode();
  }

  // Every byte but those of the scales is the same.
  Weights(TensorType type_, int64_t rows_, int64_t k_, std::byte codes) : Weights(type_, rows_, k_) {
    std::mt19937 random(1);
    const TensorTypeInfo& info = type_info(type);
    for (int64_t r = 0; r < rows; ++r) {
      test::fill_random_row(type, k, random, row(r));
      for (int64_t b = 0; b < k / info.block_elements; ++b) {
        std::byte* block = row(r) + b * info.block_bytes;
        for (int64_t i = 0; i < info.block_bytes; ++i) {
          bool is_scale = type == TensorType::kMXFP4 && i == 0;
          for (const int64_t offset : test::f16_scale_offsets(type)) is_scale |= i == offset || i == offset + 1;
          if (!is_scale) block[i] = codes;
        }
      }
    }
    decode();
  }

  std::byte* row(int64_t r) const { return bytes.data() + r * row_bytes(type, k); }

  TensorType type;
  int64_t rows;
  int64_t k;
  test::GuardedBuffer bytes;
  std::vector<float> value;   // [rows, k]
  std::vector<double> parts;  // [rows, k]

 private:
  Weights(TensorType type_, int64_t rows_, int64_t k_)
      : type(type_),
        rows(rows_),
        k(k_),
        bytes(static_cast<size_t>(rows_ * row_bytes(type_, k_))),
        value(static_cast<size_t>(rows_ * k_)),
        parts(value.size()) {}

  void decode() {
    const TensorTypeInfo& info = type_info(type);
    std::vector<std::byte> zeroed(static_cast<size_t>(row_bytes(type, k)));
    for (int64_t r = 0; r < rows; ++r) {
      float* values = value.data() + r * k;
      dequantize_row(type, row(r), values, k);
      // With the scale set to zero only the minimum of a block is left: |scale part| + |minimum| bounds what a product
      // adds.
      const auto offsets = test::f16_scale_offsets(type);
      std::vector<float> min(static_cast<size_t>(k));
      if (offsets.size() == 2) {
        std::memcpy(zeroed.data(), row(r), zeroed.size());
        for (int64_t b = 0; b < k / info.block_elements; ++b) {
          std::memset(zeroed.data() + b * info.block_bytes + offsets[0], 0, 2);
        }
        dequantize_row(type, zeroed.data(), min.data(), k);
      }
      for (int64_t i = 0; i < k; ++i) {
        const double m = min[static_cast<size_t>(i)];
        parts[static_cast<size_t>(r * k + i)] = std::abs(values[i] - m) + std::abs(m);
      }
    }
  }
};

// Activations in one format; each array ends at an unreadable page. value is what the format stands for.
struct Activations {
  Activations(const KernelTable& kernels, ActFormat format, int64_t n_, int64_t k_, uint32_t seed)
      : Activations(kernels, format, n_, k_, [random = std::mt19937(seed)](int64_t) mutable {
          std::normal_distribution<float> normal;
          return normal(random) * (random() % 50 == 0 ? 20.0F : 1.0F);
        }) {}

  // element(i) gives element i of [n, k].
  Activations(const KernelTable& kernels, ActFormat format, int64_t n_, int64_t k_,
              std::function<float(int64_t)> element)
      : n(n_),
        k(k_),
        block(format == ActFormat::kQ8Block32 ? 32 : 256),
        f32(static_cast<size_t>(n_ * k_ * 4)),
        codes(static_cast<size_t>(n_ * k_)),
        scales(static_cast<size_t>(n_ * k_ / block * 4)),
        sums(static_cast<size_t>(n_ * (k_ / 16) * 2)),
        value(static_cast<size_t>(n_ * k_)) {
    for (int64_t i = 0; i < n * k; ++i) f32.as<float>()[i] = element(i);
    if (format == ActFormat::kF32) {
      std::copy_n(f32.as<float>(), n * k, value.begin());
      view.f32 = f32.as<float>();
      view.f32_stride = k;
      return;
    }
    const QuantizeActFn quantize = block == 32 ? kernels.quantize_block32 : kernels.quantize_block256;
    for (int64_t i = 0; i < n; ++i) {
      quantize(f32.as<float>() + i * k, k, codes.as<int8_t>() + i * k, scales.as<float>() + i * k / block,
               sums.as<int16_t>() + i * k / 16);
    }
    for (int64_t i = 0; i < n * k; ++i) {
      value[static_cast<size_t>(i)] = double{scales.as<float>()[i / block]} * codes.as<int8_t>()[i];
    }
    view.codes = codes.as<int8_t>();
    view.scales = scales.as<float>();
    view.sums = sums.as<int16_t>();
  }

  int64_t n;
  int64_t k;
  int64_t block;
  test::GuardedBuffer f32;
  test::GuardedBuffer codes;
  test::GuardedBuffer scales;
  test::GuardedBuffer sums;
  std::vector<double> value;  // [n, k]
  ActView view;
};

using Param = std::tuple<const char*, TensorType>;

MatmulArgs args_for(const Weights& w, const Activations& x, const AlignedBuffer& scratch) {
  MatmulArgs args;
  args.w = w.bytes.data();
  args.w_row_bytes = row_bytes(w.type, w.k);
  args.k = w.k;
  args.row_end = w.rows;
  args.x = x.view;
  args.n = x.n;
  args.y_stride = w.rows;
  args.scratch = scratch.data();
  return args;
}

// [n, rows]
std::vector<float> multiply(const MatmulKernel& product, const Weights& w, const Activations& x) {
  const AlignedBuffer scratch(static_cast<size_t>(matmul_scratch_bytes(w.k)));
  std::vector<float> y(static_cast<size_t>(w.rows * x.n), kUntouched);
  MatmulArgs args = args_for(w, x, scratch);
  args.y = y.data();
  product.fn(args);
  return y;
}

class MatmulTest : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    kernels = test::find_kernel_set(std::get<0>(GetParam()));
    type = std::get<1>(GetParam());
    if (kernels == nullptr) GTEST_SKIP() << std::get<0>(GetParam()) << " is not built in or not supported here";
  }

  // The preferred product, and the one with fp32 activations where that is another.
  std::vector<MatmulKernel> products() const {
    const MatmulKernel preferred = kernels->matmul[static_cast<uint32_t>(type)];
    std::vector<MatmulKernel> all{preferred};
    if (preferred.format != ActFormat::kF32) all.push_back({kernels->matmul_f32[static_cast<uint32_t>(type)]});
    return all;
  }

  static void expect_near_double(const MatmulKernel& product, const Weights& w, const Activations& x) {
    const std::vector<float> y = multiply(product, w, x);
    // fp32: k products and sums. int8: a block has a product of scales, a conversion, a product and a sum, the minimum
    // twice those; sums run over the blocks.
    const bool integer = product.format != ActFormat::kF32;
    const auto roundings = static_cast<double>(integer ? 2 * (w.k / type_info(w.type).block_elements) + 6 : w.k + 2);
    for (int64_t i = 0; i < x.n; ++i) {
      for (int64_t r = 0; r < w.rows; ++r) {
        double expected = 0;
        double magnitude = 0;
        for (int64_t c = 0; c < w.k; ++c) {
          const double a = x.value[static_cast<size_t>(i * w.k + c)];
          expected += double{w.value[static_cast<size_t>(r * w.k + c)]} * a;
          magnitude += w.parts[static_cast<size_t>(r * w.k + c)] * std::abs(a);
        }
        EXPECT_NEAR(y[static_cast<size_t>(i * w.rows + r)], expected, roundings * test::kUnit * magnitude)
            << "k " << w.k << " row " << r << " activation " << i;
      }
    }
  }

  const KernelTable* kernels = nullptr;
  TensorType type{};
};

TEST_P(MatmulTest, IsWithinTheRoundingOfItsFloatOperations) {
  const int64_t block = type_info(type).block_elements;
  for (const MatmulKernel& product : products()) {
    const int64_t unit = product.format == ActFormat::kQ8Block256 ? 256 : std::max<int64_t>(block, 32);
    for (const int64_t k :
         {block == 1 ? int64_t{7} : unit, unit, 3 * unit, std::max<int64_t>(unit, 2304 / unit * unit)}) {
      const Weights w(type, 7, k, 11);
      const Activations x(*kernels, product.format, 6, k, 12);
      expect_near_double(product, w, x);
    }
  }
}

// All codes at one end of their range against activations at the ends of theirs: no intermediate may saturate or wrap.
TEST_P(MatmulTest, HoldsTheLargestSums) {
  const int64_t k = std::max<int64_t>(type_info(type).block_elements, 256);
  for (const MatmulKernel& product : products()) {
    for (const auto codes : {std::byte{0x00}, std::byte{0xFF}, std::byte{0x80}, std::byte{0x7F}, std::byte{0x88}}) {
      if (type == TensorType::kF32 || type == TensorType::kBF16 || type == TensorType::kIQ1_M) continue;  // all scale
      const Weights w(type, 3, k, codes);
      expect_near_double(product, w, Activations(*kernels, product.format, 1, k, [](int64_t) { return 1.0F; }));
      expect_near_double(product, w, Activations(*kernels, product.format, 1, k, [](int64_t) { return -3.0F; }));
      expect_near_double(
          product, w, Activations(*kernels, product.format, 2, k, [](int64_t i) { return i % 2 == 0 ? 2.0F : -2.0F; }));
    }
  }
}

TEST_P(MatmulTest, ANonFiniteActivationShows) {
  const int64_t k = 3 * std::max<int64_t>(type_info(type).block_elements, 256);
  for (const MatmulKernel& product : products()) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      const Weights w(type, 5, k, 13);
      const Activations x(*kernels, product.format, 2, k, [=](int64_t i) { return i == k + 300 ? bad : 0.5F; });
      const std::vector<float> y = multiply(product, w, x);
      for (size_t r = 0; r < 5; ++r) {
        EXPECT_TRUE(std::isfinite(y[r]));
        EXPECT_FALSE(std::isfinite(y[5 + r])) << bad;
      }
    }
  }
}

TEST_P(MatmulTest, ResultsDoNotDependOnTheirNeighbours) {
  constexpr int64_t kMax = 20;
  for (const MatmulKernel& product : products()) {
    const int64_t k =
        3 * std::max<int64_t>(type_info(type).block_elements, product.format == ActFormat::kF32 ? 1 : 32) +
        (type_info(type).block_elements == 1 ? 32 : 0);
    const Weights w(type, 21, k, 21);
    const Activations x(*kernels, product.format, kMax, k, 22);
    const AlignedBuffer scratch(static_cast<size_t>(matmul_scratch_bytes(k)));

    // One row and one activation at a time is what all others must equal.
    std::vector<float> expected(static_cast<size_t>(kMax * w.rows));
    for (int32_t i = 0; i < kMax; ++i) {
      for (int64_t r = 0; r < w.rows; ++r) {
        MatmulArgs args = args_for(w, x, scratch);
        args.row_begin = r;
        args.row_end = r + 1;
        args.n = 1;
        args.x_rows = &i;
        args.y_rows = &i;
        args.y = expected.data();
        product.fn(args);
      }
    }

    std::mt19937 random(23);
    for (int64_t n = 1; n <= kMax; ++n) {
      for (int64_t n_rows = 1; n_rows <= w.rows; n_rows += n % 2 == 0 ? 1 : 4) {
        const int64_t begin = static_cast<int64_t>(random() % static_cast<uint64_t>(w.rows - n_rows + 1));
        std::vector<int32_t> x_rows(static_cast<size_t>(n));
        for (int32_t& row : x_rows) row = static_cast<int32_t>(random() % kMax);
        std::vector<int32_t> y_rows(static_cast<size_t>(n));
        std::iota(y_rows.begin(), y_rows.end(), 0);
        std::shuffle(y_rows.begin(), y_rows.end(), random);
        const bool plain = n_rows % 2 == 0;  // without tables of rows
        MatmulArgs args = args_for(w, x, scratch);
        args.row_begin = begin;
        args.row_end = begin + n_rows;
        args.n = n;
        args.x_rows = plain ? nullptr : x_rows.data();
        args.y_rows = plain ? nullptr : y_rows.data();
        args.y_stride = w.rows + 3;
        std::vector<float> y(static_cast<size_t>(n * args.y_stride), kUntouched);
        args.y = y.data();
        product.fn(args);

        std::vector<float> wanted(y.size(), kUntouched);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t from = plain ? i : x_rows[static_cast<size_t>(i)];
          const int64_t to = plain ? i : y_rows[static_cast<size_t>(i)];
          for (int64_t r = begin; r < begin + n_rows; ++r) {
            wanted[static_cast<size_t>(to * args.y_stride + r)] = expected[static_cast<size_t>(from * w.rows + r)];
          }
        }
        ASSERT_EQ(y, wanted) << n << " activations, rows from " << begin << " to " << begin + n_rows;
      }
    }
  }
}

TEST_P(MatmulTest, NoRowsOrActivationsWriteNothing) {
  for (const MatmulKernel& product : products()) {
    const int64_t k = std::max<int64_t>(type_info(type).block_elements, 256);
    const Weights w(type, 2, k, 31);
    const Activations x(*kernels, product.format, 2, k, 32);
    const AlignedBuffer scratch(static_cast<size_t>(matmul_scratch_bytes(k)));
    std::vector<float> y(4, kUntouched);
    MatmulArgs args = args_for(w, x, scratch);
    args.y = y.data();
    args.n = 0;
    product.fn(args);
    args.n = 2;
    args.row_begin = args.row_end = 1;
    product.fn(args);
    EXPECT_EQ(y, std::vector<float>(4, kUntouched));
  }
}

std::string test_name(const testing::TestParamInfo<Param>& param) {
  return std::string(std::get<0>(param.param)) + "_" + std::string(type_info(std::get<1>(param.param)).name);
}

INSTANTIATE_TEST_SUITE_P(Isa, MatmulTest,
                         testing::Combine(testing::ValuesIn(test::kKernelSets), testing::ValuesIn(weight_types())),
                         test_name);

// The sets for newer processors also share the order of the float operations.
TEST(Matmul, IntegerProductsOfAvx512HaveTheBitsOfAvx2) {
  const KernelTable* avx2 = test::find_kernel_set("avx2");
  const KernelTable* avx512 = test::find_kernel_set("avx512");
  if (avx2 == nullptr || avx512 == nullptr) GTEST_SKIP() << "one of the sets is not built in or not supported here";
  int n_types = 0;
  for (const TensorType type : weight_types()) {
    const MatmulKernel product = avx512->matmul[static_cast<uint32_t>(type)];
    if (product.format == ActFormat::kF32) continue;
    ++n_types;
    const int64_t unit = product.format == ActFormat::kQ8Block256 ? 256 : 32;
    for (const int64_t blocks : {1, 2, 7, 8, 19}) {
      const Weights w(type, 37, blocks * unit, 41);
      for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 31, 32, 33, 70}) {
        const Activations x(*avx512, product.format, n, w.k, 42);
        ASSERT_EQ(multiply(product, w, x), multiply(avx2->matmul[static_cast<uint32_t>(type)], w, x))
            << type_info(type).name << ", " << blocks << " blocks, " << n << " activations";
      }
    }
  }
  EXPECT_GE(n_types, 13);
}

}  // namespace
}  // namespace kda
