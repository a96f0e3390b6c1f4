#include "cli/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "formats/json.h"

namespace kda::cli {
namespace {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  Folder() : path(fs::temp_directory_path() / ("kda_cli_files_" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() override { fs::remove_all(path); }
  static mode_t mode_of(const fs::path& file) {
    struct stat info {};
    return stat(file.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  }
  fs::path path;
};

using PrivateFile = Folder;
using HistoryFile = Folder;

TEST_F(PrivateFile, IsWrittenWholeForItsOwnerOnly) {
  write_private_file(path / "f", "one");
  write_private_file(path / "f", "two");
  EXPECT_EQ(read_text_file(path / "f", 100), "two");
  EXPECT_EQ(mode_of(path / "f"), 0600U);
  EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 1) << "no temporary file is left";
  EXPECT_THROW(write_private_file(path / "missing" / "f", "x"), Error);
  fs::create_directory(path / "folder");
  EXPECT_THROW(write_private_file(path / "folder", "x"), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 2);
}

TEST_F(HistoryFile, KeepsEntriesOfSeveralLinesAcrossRuns) {
  const fs::path file = path / "state" / "history";
  {
    History history(file);
    history.add("plain");
    history.add("two\nlines \\n \\");
    history.add("two\nlines \\n \\");
    history.add("  ");
  }
  EXPECT_EQ(History(file).entries(), (std::vector<std::string>{"plain", "two\nlines \\n \\"}));
  EXPECT_EQ(mode_of(file), 0600U);
  EXPECT_EQ(mode_of(file.parent_path()), 0700U);
}

TEST_F(HistoryFile, DropsTheOldestEntries) {
  const fs::path file = path / "history";
  std::ofstream out(file);
  for (size_t i = 0; i < History::kMaxEntries + 5; ++i) out << "entry " << i << '\n';
  out.close();
  EXPECT_EQ(History(file).entries().front(), "entry 5");
  EXPECT_EQ(History(file).entries().size(), History::kMaxEntries);
  EXPECT_EQ(mode_of(file), 0600U);
}

TEST_F(HistoryFile, WorksWithoutAFile) {
  for (const fs::path& file : {fs::path(), path, fs::path("/proc/none/history")}) {
    History history(file);
    history.add("a");
    EXPECT_EQ(history.entries(), std::vector<std::string>{"a"});
  }
}

}  // namespace
}  // namespace kda::cli
