// Room on a file system.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kda {

/// Throws Error(kIo) when the file system of `folder` has less than `bytes` free; says nothing where it cannot be
/// asked. `subject` begins the message.
void check_disk_space(const std::filesystem::path& folder, int64_t bytes, const std::string& subject);

}  // namespace kda
