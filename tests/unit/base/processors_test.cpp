#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace kda {
namespace {

class ProcessorsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write_siblings(int processor, const std::string& text) {
    write("sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list", text);
  }
  [[nodiscard]] int cores(const std::vector<int>& processors) const { return count_cores(processors, root()); }
  [[nodiscard]] std::string root() const { return folder_.path().string(); }

  test::TempFolder folder_;
};

TEST_F(ProcessorsTest, SiblingsAreOneCore) {
  write_siblings(0, "0,2\n");
  write_siblings(1, "1,3\n");
  write_siblings(2, "0,2\n");
  write_siblings(3, "1,3\n");
  EXPECT_EQ(cores({0, 1, 2, 3}), 2);
  EXPECT_EQ(cores({0, 2}), 1);
  EXPECT_EQ(cores({2, 3}), 2);
  EXPECT_EQ(cores({3}), 1);
}

TEST_F(ProcessorsTest, CoresMayDifferInTheirProcessors) {
  write_siblings(0, "0-1\n");
  write_siblings(1, "0-1\n");
  write_siblings(2, "2\n");
  write_siblings(3, "3\n");
  EXPECT_EQ(cores({0, 1, 2, 3}), 3);
}

TEST_F(ProcessorsTest, EveryProcessorIsACoreWhereTheTopologyCannotBeRead) {
  EXPECT_EQ(cores({0, 1, 2, 3}), 4);
  write_siblings(0, "0-3\n");
  write_siblings(1, "");
  EXPECT_EQ(cores({0, 1, 2, 3}), 4);
}

TEST_F(ProcessorsTest, AQuotaIsRoundedUpToWholeProcessors) {
  EXPECT_EQ(quota_processors(root()), INT_MAX);
  const auto quota = [&](const std::string& text) {
    write("sys/fs/cgroup/cpu.max", text);
    return quota_processors(root());
  };
  EXPECT_EQ(quota("max 100000\n"), INT_MAX);
  EXPECT_EQ(quota("200000 100000\n"), 2);
  EXPECT_EQ(quota("150000 100000\n"), 2);
  EXPECT_EQ(quota("1000 100000\n"), 1);
  EXPECT_EQ(quota("9223372036854775807 1\n"), INT_MAX);
  for (const char* wrong : {"", "x y\n", "0 100000\n", "100000 0\n", "-5 100000\n", "100000\n"}) {
    EXPECT_EQ(quota(wrong), INT_MAX) << wrong;
  }
}

TEST_F(ProcessorsTest, TheTightestGroupAboveTheProcessCounts) {
  write("proc/self/cgroup", "1:cpu:/elsewhere\n0::/user.slice/job.scope\n");
  write("sys/fs/cgroup/elsewhere/cpu.max", "100000 100000\n");
  write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota_processors(root()), 3);
  write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota_processors(root()), 2);
  write("proc/self/cgroup", "0::/../..\n");  // a group outside of what a container sees
  EXPECT_EQ(quota_processors(root()), INT_MAX);
}

TEST(Processors, FollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  EXPECT_LE(available_processors(), CPU_COUNT(&before));
  EXPECT_GE(available_processors(), available_cores());
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_processors(), 1);
  EXPECT_EQ(available_cores(), 1);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace kda
