// Runs a suite once for every instruction set; an absent one shows up as skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/cpu_features.h"
#include "kernels/kernel_table.h"

namespace kda::test {

/// Half the distance from 1 to the next float: the largest relative error of one rounding.
inline constexpr double kUnit = 0x1p-24;

/// From the slowest to the fastest.
inline const char* const kKernelSets[] = {"scalar", "avx2", "avx512"};

/// nullptr when this program or processor lacks the set.
inline const KernelTable* find_kernel_set(const char* name) {
  if (std::strcmp(name, "scalar") == 0) return &scalar_kernels();
  if (std::strcmp(name, "avx2") == 0) return cpu_features().avx2 ? avx2_kernels() : nullptr;
  return cpu_features().avx512 ? avx512_kernels() : nullptr;
}

class KernelSetTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels = find_kernel_set(GetParam());
    if (kernels == nullptr) GTEST_SKIP() << GetParam() << " is not built in or not supported here";
  }

  const KernelTable* kernels = nullptr;
};

inline std::string kernel_set_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace kda::test

#define KDA_FOR_EVERY_KERNEL_SET(suite) \
  INSTANTIATE_TEST_SUITE_P(Isa, suite, testing::ValuesIn(::kda::test::kKernelSets), ::kda::test::kernel_set_name)
