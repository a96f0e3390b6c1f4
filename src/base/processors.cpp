#include "base/processors.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <numeric>
#include <set>
#include <vector>

namespace kda {

namespace {

/// Numbers of the processors in the affinity mask.
std::vector<int> allowed_processors() {
  std::vector<int> out;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) out.push_back(i);
    }
  } else {  // more processors than a cpu_set_t holds
    out.resize(static_cast<size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))));
    std::iota(out.begin(), out.end(), 0);
  }
  return out;
}

/// Processors that a file cpu.max ("QUOTA PERIOD" in microseconds, or "max PERIOD") pays for.
int quota_of(const std::string& path) {
  std::ifstream in(path);
  int64_t quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::min<int64_t>((quota - 1) / period + 1, INT_MAX));
}

}  // namespace

int count_cores(std::span<const int> processors, const std::string& root) {
  std::set<std::string> cores;  // each by the list of its processors, "0,64" or "0-1"
  for (const int processor : processors) {
    std::ifstream in(fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, processor));
    std::string siblings;
    if (!std::getline(in, siblings) || siblings.empty()) return static_cast<int>(processors.size());
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

int quota_processors(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) path = line.substr(3);  // the others are of version 1
  }
  // A container may see paths of the host; those of its own end at the root of the tree.
  int least = quota_of(root + "/sys/fs/cgroup/cpu.max");
  for (; path.size() > 1; path.resize(path.rfind('/'))) {
    least = std::min(least, quota_of(fmt::format("{}/sys/fs/cgroup{}/cpu.max", root, path)));
  }
  return least;
}

int available_processors() {
  return std::max(1, std::min(static_cast<int>(allowed_processors().size()), quota_processors()));
}

int available_cores() { return std::max(1, std::min(count_cores(allowed_processors()), quota_processors())); }

}  // namespace kda
