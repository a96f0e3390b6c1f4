#include "measure/logits_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace kda {
namespace {

constexpr int64_t kVocab = 5;

class LogitsFileTest : public testing::Test {
 protected:
  LogitsFileTest() {
    chunks_.n_ctx = 8;
    chunks_.n_chunks = 2;
    for (int32_t i = 0; i < 16; ++i) chunks_.ids.push_back(static_cast<int32_t>(i % kVocab));
  }

  void write() const {
    LogitsWriter writer(path_, chunks_, kVocab);
    for (int64_t i = 0; i < chunks_.n_scored(); ++i) writer.add(row(i));
    writer.commit();
  }
  static std::vector<float> row(int64_t i) {
    std::vector<float> out;
    for (int64_t j = 0; j < kVocab; ++j) out.push_back(static_cast<float>(i * kVocab + j) * 0.3F);
    return out;
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// The file with a number of the header or of the ids set to something else.
  void damaged(size_t at, uint32_t value, ErrorCode code, const std::string& message) const {
    write();
    std::string changed = bytes();
    std::memcpy(changed.data() + at, &value, sizeof value);
    refused(changed, code, message);
  }
  void refused(const std::string& content, ErrorCode code, const std::string& message) const {
    std::ofstream(path_, std::ios::binary) << content;
    test::expect_error(code, message, [&] { (void)LogitsFile::open(path_); });
  }

  test::TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "a.logits";
  TextChunks chunks_;
};

TEST_F(LogitsFileTest, WhatIsWrittenIsReadBack) {
  write();
  EXPECT_EQ(static_cast<int64_t>(bytes().size()), LogitsWriter::file_bytes(chunks_, kVocab));
  const LogitsFile file = LogitsFile::open(path_);
  EXPECT_EQ(file.vocab(), kVocab);
  EXPECT_EQ(file.chunks().ids, chunks_.ids);
  EXPECT_EQ(file.chunks().n_ctx, 8);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(std::vector(file.row(i).begin(), file.row(i).end()), row(i));
}

TEST_F(LogitsFileTest, NothingHasTheNameBeforeTheLastRow) {
  {
    LogitsWriter writer(path_, chunks_, kVocab);
    writer.add(row(0));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(LogitsFileTest, MoreThanTheDiskHoldsIsRefusedAtOnce) {
  chunks_.n_chunks = int64_t{1} << 31;
  test::expect_error(ErrorCode::kLimit, "the disk has room for",
                     [&] { const LogitsWriter writer(path_, chunks_, int64_t{1} << 20); });
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(LogitsFileTest, DamageIsNamed) {
  damaged(0, 0, ErrorCode::kFormat, "no file of logits");
  damaged(8, 2, ErrorCode::kUnsupported, "version of the file is 2, expected 1");
  damaged(12, 0, ErrorCode::kFormat, "0 logits a row do not fit");
  damaged(12, 6, ErrorCode::kFormat, "expected 6 rows of 6 logits");
  damaged(12, 0xFFFFFFFF, ErrorCode::kFormat, "expected 6 rows of 4294967295 logits");
  damaged(16, 7, ErrorCode::kFormat, "2 chunks of 7 tokens");
  damaged(16, 0xFFFFFFFF, ErrorCode::kFormat, "2 chunks of 4294967295 tokens");
  damaged(20, 0, ErrorCode::kFormat, "0 chunks of 8 tokens");
  damaged(20, 0xFFFFFFFF, ErrorCode::kFormat, "4294967295 chunks of 8 tokens");
  damaged(24 + 4 * 3, 5, ErrorCode::kFormat, "token 3 is 5, expected 0 to 4");
  damaged(24, 0x80000000, ErrorCode::kFormat, "token 0 is -2147483648");
}

TEST_F(LogitsFileTest, EveryCutIsRefused) {
  write();
  const std::string all = bytes();
  for (size_t n = 1; n < all.size(); n += 3) refused(all.substr(0, n), ErrorCode::kFormat, "a.logits");
  refused(all + "1234", ErrorCode::kFormat, "expected 6 rows");
}

}  // namespace
}  // namespace kda
