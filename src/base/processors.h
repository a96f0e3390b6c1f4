// How many threads the machine has room for.
#pragma once

#include <span>
#include <string>

namespace kda {

/// Number of processors this process may keep busy: those of its affinity mask, no more than the quota of its control
/// groups pays for. At least 1.
[[nodiscard]] int available_processors();

/// The same in cores, where several processors of a core (SMT) count as one.
[[nodiscard]] int available_cores();

/// Cores that the processors with these numbers belong to, from `root`/sys/devices/system/cpu; as many as processors
/// where that does not tell.
[[nodiscard]] int count_cores(std::span<const int> processors, const std::string& root = "");

/// Processors that the tightest quota of this process's control groups (version 2) pays for, rounded up, from
/// `root`/proc/self/cgroup and `root`/sys/fs/cgroup; INT_MAX where there is none.
[[nodiscard]] int quota_processors(const std::string& root = "");

}  // namespace kda
