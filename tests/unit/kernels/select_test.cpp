#include <gtest/gtest.h>

#include "base/error.h"
#include "kernel_sets.h"

namespace kda {
namespace {

TEST(SelectKernels, GivesTheSetOfThatName) {
  for (const char* name : test::kKernelSets) {
    if (test::find_kernel_set(name) != nullptr) {
      EXPECT_STREQ(select_kernels(name).name, name);
    } else {
      EXPECT_THROW(static_cast<void>(select_kernels(name)), Error);
    }
  }
}

TEST(SelectKernels, GivesTheLastOfThoseThatRunHereUnlessNamed) {
  const char* best = nullptr;
  for (const char* name : test::kKernelSets) {
    if (test::find_kernel_set(name) != nullptr) best = name;
  }
  EXPECT_STREQ(select_kernels("auto").name, best);
  EXPECT_STREQ(select_kernels("").name, best);
}

TEST(SelectKernels, RefusesAnUnknownName) {
  try {
    static_cast<void>(select_kernels("sse9"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("sse9"), std::string::npos);
  }
}

class KernelTableTest : public test::KernelSetTest {};

TEST_P(KernelTableTest, MultipliesEveryWeightType) {
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* info = find_tensor_type(number);
    const bool is_weight = info != nullptr && info->is_weight;
    EXPECT_EQ(kernels->matmul[number].fn != nullptr, is_weight) << number;
    EXPECT_EQ(kernels->matmul_f32[number] != nullptr, is_weight) << number;
  }
}

TEST_P(KernelTableTest, TakesActivationsInTheSameFormatAsTheScalarSet) {
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    EXPECT_EQ(kernels->matmul[number].format, scalar_kernels().matmul[number].format) << number;
  }
}

KDA_FOR_EVERY_KERNEL_SET(KernelTableTest);

}  // namespace
}  // namespace kda
