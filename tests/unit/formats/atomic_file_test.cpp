#include "formats/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "support/temp_folder.h"

namespace kda {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

int64_t n_entries(const fs::path& folder) { return std::distance(fs::directory_iterator(folder), {}); }

TEST(AtomicFile, ReplacesWhatALinkLeadsTo) {
  const test::TempFolder folder;
  write(folder.path() / "real", "before");
  fs::create_symlink("real", folder.path() / "link");
  write(folder.path() / "link", "after");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(read(folder.path() / "real"), "after");
  EXPECT_EQ(n_entries(folder.path()), 2);
}

TEST(AtomicFile, RefusesToReplaceWhatIsNoFile) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder.path() / "folder");
  for (const char* name : {"pipe", "folder"}) {
    EXPECT_THROW(write(folder.path() / name, "text"), Error) << name;
  }
  EXPECT_TRUE(fs::is_fifo(folder.path() / "pipe"));
  EXPECT_EQ(n_entries(folder.path()), 2);
}

TEST(AtomicFile, UnfinishedFilesCanBeRemovedFromASignalHandler) {
  const test::TempFolder folder;
  {
    AtomicFile file(folder.path() / "a");
    EXPECT_EQ(n_entries(folder.path()), 1);
    remove_unfinished_files();
    EXPECT_EQ(n_entries(folder.path()), 0);
  }
  write(folder.path() / "b", "text");
  remove_unfinished_files();
  EXPECT_EQ(read(folder.path() / "b"), "text");
}

}  // namespace
}  // namespace kda
