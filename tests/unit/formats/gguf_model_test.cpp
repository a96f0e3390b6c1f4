#include <gtest/gtest.h>

#include <cstdint>

#include "formats/gguf.h"
#include "formats/shard_name.h"
#include "unit/formats/support.h"

namespace kda {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr float kData[8] = {1, 2, 3, 4, 5, 6, 7, 8};

struct Part {
  std::vector<std::string> tensors;
  std::optional<uint16_t> no;
  std::optional<uint16_t> count;
  std::optional<int32_t> total = std::nullopt;
};

std::string bytes_of(const Part& part) {
  GgufWriter writer;
  if (part.no == 0) writer.add_string("general.architecture", "kimi-linear");
  if (part.no) writer.add_uint16("split.no", *part.no);
  if (part.count) writer.add_uint16("split.count", *part.count);
  if (part.total) writer.add_int32("split.tensors.count", *part.total);
  const int64_t ne[] = {8};
  for (const std::string& name : part.tensors) {
    writer.add_tensor(name, TensorType::kF32, ne, std::as_bytes(std::span(kData)));
  }
  return std::string(test::as_text(writer.finish()));
}

/// Three parts, right in every way until a test changes one.
struct SplitSet {
  TemporaryFolder folder;
  std::vector<Part> parts = {{{"a"}, 0, 3, 4}, {{"b", "c"}, 1, 3, 4}, {{"d"}, 2, 3, 4}};

  [[nodiscard]] std::filesystem::path path(int number) const {
    return folder.path() / format_shard_name({"m", number, static_cast<int>(parts.size())});
  }
  void write() const {
    for (size_t i = 0; i < parts.size(); ++i) {
      folder.write(path(static_cast<int>(i) + 1).filename(), bytes_of(parts[i]));
    }
  }
  void expect_refused(std::initializer_list<std::string_view> words, ErrorCode code = ErrorCode::kFormat) const {
    write();
    expect_error(code, words, [&] { (void)GgufModel::open(path(1)); });
  }
};

TEST(GgufModel, OpensASingleFile) {
  const TemporaryFolder folder;
  for (const Part& part : {Part{{"a"}, std::nullopt, std::nullopt}, Part{{"a"}, 0, 0}, Part{{"a"}, 0, 1}}) {
    const GgufModel model = GgufModel::open(folder.write("any name", bytes_of(part)));
    EXPECT_EQ(model.parts().size(), 1U);
    EXPECT_EQ(model.files().size(), 1U);
    EXPECT_NE(model.find_tensor("a"), nullptr);
    EXPECT_EQ(model.find_tensor("b"), nullptr);
  }
}

TEST(GgufModel, OpensASplitSetFromAnyPart) {
  const SplitSet set;
  set.write();
  for (int number = 1; number <= 3; ++number) {
    GgufModel opened = GgufModel::open(set.path(number));
    const GgufModel model = std::move(opened);  // the views stay good
    ASSERT_EQ(model.parts().size(), 3U);
    ASSERT_EQ(model.files().size(), 3U);
    EXPECT_EQ(model.main().get_string("general.architecture"), "kimi-linear");
    EXPECT_EQ(model.main().name(), set.path(1).string());
    for (const char* name : {"a", "b", "c", "d"}) {
      ASSERT_NE(model.find_tensor(name), nullptr) << name;
      EXPECT_EQ(test::as_text(model.find_tensor(name)->bytes), test::as_text(std::as_bytes(std::span(kData))));
    }
  }
}

TEST(GgufModel, AcceptsAFirstPartWithoutTensorsAndPartsWithoutCounts) {
  SplitSet set;
  set.parts = {{{}, 0, 2}, {{"a"}, 1, std::nullopt}};
  set.write();
  EXPECT_NE(GgufModel::open(set.path(1)).find_tensor("a"), nullptr);
}

TEST(GgufModel, FollowsLinksAsTheHubCacheHasThem) {
  const SplitSet set;
  set.write();
  const TemporaryFolder links;
  for (int number = 1; number <= 3; ++number) {
    std::filesystem::create_symlink(set.path(number), links.path() / set.path(number).filename());
  }
  EXPECT_EQ(GgufModel::open(links.path() / set.path(1).filename()).parts().size(), 3U);
}

TEST(GgufModel, RefusesAMissingPart) {
  const SplitSet set;
  set.write();
  std::filesystem::remove(set.path(2));
  expect_error(ErrorCode::kNotFound, {"m-00002-of-00003.gguf", "part 2 of 3 is missing"},
               [&] { (void)GgufModel::open(set.path(1)); });
  set.write();
  std::filesystem::remove(set.path(1));
  expect_error(ErrorCode::kNotFound, {"m-00001-of-00003.gguf", "part 1 of 3 is missing"},
               [&] { (void)GgufModel::open(set.path(3)); });
}

TEST(GgufModel, RefusesPartsInTheWrongOrder) {
  SplitSet set;
  std::swap(set.parts[1], set.parts[2]);
  set.expect_refused({"m-00002-of-00003.gguf", "expected split.no = 1", "found 2"});
}

TEST(GgufModel, RefusesPartsOfAnotherCount) {
  SplitSet set;
  set.parts[2].count = 4;
  set.expect_refused({"m-00003-of-00003.gguf", "expected split.count = 3", "found 4"});
}

TEST(GgufModel, RefusesPartsWithoutANumber) {
  SplitSet set;
  set.parts[1].no = std::nullopt;
  set.expect_refused({"m-00002-of-00003.gguf", "'split.no'", "found none"});
}

TEST(GgufModel, RefusesATensorInTwoParts) {
  SplitSet set;
  set.parts[2].tensors = {"b"};
  set.expect_refused({"m-00003-of-00003.gguf", "tensor 'b'", "expected it once"});
}

TEST(GgufModel, RefusesAWrongTotal) {
  for (const int32_t total : {3, 5, -4}) {
    SplitSet set;
    set.parts[0].total = total;
    set.expect_refused({"m-00001-of-00003.gguf", "expected " + std::to_string(total) + " tensors", "found 4"});
  }
}

TEST(GgufModel, RefusesARenamedPart) {
  const SplitSet set;
  set.write();
  for (const char* name : {"model.gguf", "m-00002-of-00003.gguf", "m-00001-of-00004.gguf", "m-1-of-3.gguf"}) {
    const TemporaryFolder other;
    const auto path = other.path() / name;
    std::filesystem::copy_file(set.path(1), path);
    expect_error(ErrorCode::kFormat, {name, "part 1 of 3", "-00001-of-00003.gguf"},
                 [&] { (void)GgufModel::open(path); });
  }
}

TEST(GgufModel, RefusesCountsThatNoSetHas) {
  const TemporaryFolder folder;
  for (const int64_t count : {int64_t{-1}, int64_t{65536}, int64_t{1} << 40U}) {
    GgufWriter writer;
    writer.add_value("split.count", {GgufType::kInt64, count});
    writer.add_uint16("split.no", 0);
    const auto path = folder.write("m-00001-of-00001.gguf", test::as_text(writer.finish()));
    expect_error(ErrorCode::kFormat, {"split.count", "found " + std::to_string(count)},
                 [&] { (void)GgufModel::open(path); });
  }
}

TEST(GgufModel, NamesTheFileThatIsBroken) {
  const SplitSet set;
  set.write();
  set.folder.write("m-00002-of-00003.gguf", "version https://git-lfs.github.com/spec/v1\n");
  expect_error(ErrorCode::kFormat, {"m-00002-of-00003.gguf", "Git LFS pointer"},
               [&] { (void)GgufModel::open(set.path(1)); });
  expect_error(ErrorCode::kNotFound, {"absent.gguf"},
               [&] { (void)GgufModel::open(set.folder.path() / "absent.gguf"); });
}

TEST(ShardName, ReadsAndWritesTheConvention) {
  const auto shard = parse_shard_name("Kimi-00002-of-00010.gguf");
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->prefix, "Kimi");
  EXPECT_EQ(shard->number, 2);
  EXPECT_EQ(shard->count, 10);
  EXPECT_EQ(format_shard_name(*shard), "Kimi-00002-of-00010.gguf");
  for (const char* name : {"Kimi.gguf", "Kimi-2-of-10.gguf", "Kimi-00000-of-00010.gguf", "Kimi-00011-of-00010.gguf",
                           "Kimi-0000a-of-00010.gguf", "Kimi-00002-of-00010.gguf2", "Kimi_00002-of-00010.gguf",
                           "Kimi-00002_of-00010.gguf", "00002-of-00010.gguf", ""}) {
    EXPECT_FALSE(parse_shard_name(name)) << name;
  }
}

}  // namespace
}  // namespace kda
