// Where the published data lies that is not part of the repository.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace kda::test {

/// $KDA_SHARED or ../shared beside the source tree; nullopt when it is not there.
inline std::optional<std::filesystem::path> shared_folder() {
  const char* env = std::getenv("KDA_SHARED");
  const std::filesystem::path folder = env != nullptr && *env != '\0'
                                           ? std::filesystem::path(env)
                                           : std::filesystem::path(KDA_SOURCE_DIR) / ".." / "shared";
  if (std::filesystem::is_directory(folder)) return folder;
  return std::nullopt;
}

}  // namespace kda::test

/// Declares `name` as the folder of shared data, or skips the test.
#define KDA_SHARED_OR_SKIP(name)                                                                      \
  const auto name##_found = ::kda::test::shared_folder();                                             \
  if (!name##_found) GTEST_SKIP() << "no shared data: set KDA_SHARED to its folder to run this test"; \
  const std::filesystem::path& name = *name##_found
