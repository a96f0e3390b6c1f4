// One test a rule of the format: the value at the border passes, the next one is refused.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <limits>

#include "formats/json.h"
#include "support/shared_data.h"
#include "unit/formats/support.h"

namespace kda {
namespace {

using test::as_text;
using test::Bytes;
using test::expect_error;
using test::TemporaryFolder;

Bytes file_of(std::string_view header, std::string_view data = {}) { return Bytes().str(header).raw(data); }

SafeTensorsFile parse(const Bytes& bytes) { return SafeTensorsFile::parse(bytes.span(), "t.safetensors"); }

void expect_refused(const Bytes& bytes, std::initializer_list<std::string_view> words) {
  // A copy that ends where the bytes end, so that a sanitizer sees reads behind them.
  const std::vector<std::byte> exact(bytes.span().begin(), bytes.span().end());
  expect_error(ErrorCode::kFormat, words, [&] { (void)SafeTensorsFile::parse(exact, "t.safetensors"); });
}

/// A header of one tensor "w".
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"w":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) + R"(,"data_offsets":)" +
         std::string(offsets) + "}}";
}

TEST(SafeTensors, ReadsAFileMadeByHand) {
  const Bytes bytes = file_of(
      R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I64","shape":[0,5],"data_offsets":[16,16]}}  )",
      "aaaabbbbbbbbbbbb");
  const SafeTensorsFile file = parse(bytes);
  ASSERT_EQ(file.tensors().size(), 3U);
  const SafeTensor& a = file.tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, "F32");
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(a.n_elements(), 1);
  EXPECT_EQ(as_text(a.bytes), "aaaa");
  const SafeTensor& b = file.tensors()[1];
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.n_elements(), 6);
  EXPECT_EQ(as_text(b.bytes), "bbbbbbbbbbbb");
  EXPECT_EQ(file.tensors()[2].n_elements(), 0);
  EXPECT_TRUE(file.tensors()[2].bytes.empty());
}

TEST(SafeTensors, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(parse(file_of("{}")).tensors().empty());
  EXPECT_TRUE(parse(file_of(R"({"__metadata__":{}})")).tensors().empty());
}

TEST(SafeTensors, KnowsTheSizeOfEveryDtype) {
  const std::pair<const char*, int> bits[] = {
      {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
      {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64},
  };
  for (const auto& [dtype, n] : bits) {
    const std::string end = std::to_string(n);  // 8 elements of n bits are n bytes
    EXPECT_EQ(parse(file_of(one(dtype, "[8]", "[0," + end + "]"), std::string(static_cast<size_t>(n), 'x')))
                  .tensors()[0]
                  .dtype,
              dtype);
    const std::string less = std::to_string(n - 1);
    expect_refused(file_of(one(dtype, "[8]", "[0," + less + "]"), std::string(static_cast<size_t>(n) - 1, 'x')),
                   {"t.safetensors", "'w'", "expected " + end + " bytes", dtype, "found " + less});
  }
}

TEST(SafeTensors, LeavesUnknownDtypesToTheirUser) {
  const Bytes bytes = file_of(one("F3", "[8]", "[0,3]"), "xxx");
  EXPECT_EQ(parse(bytes).tensors()[0].dtype, "F3");
}

TEST(SafeTensors, RefusesFilesShorterThanTheLength) {
  expect_refused(Bytes(""), {"at least 8 bytes", "found 0"});
  expect_refused(Bytes("1234567"), {"at least 8 bytes", "found 7"});
}

TEST(SafeTensors, RefusesHeadersThatGoPastTheEnd) {
  ASSERT_NO_THROW(parse(Bytes().u64(2).raw("{}")));
  expect_refused(Bytes().u64(3).raw("{}"), {"header length", "the 2 bytes that follow", "found 3", "cut off"});
}

TEST(SafeTensors, RefusesHeadersBeyond100MB) {
  expect_refused(Bytes().u64(100'000'000).raw("{}"), {"header length", "the 2 bytes that follow", "found 100000000"});
  for (const uint64_t n : {uint64_t{100'000'001}, uint64_t{1} << 63U, std::numeric_limits<uint64_t>::max(),
                           std::numeric_limits<uint64_t>::max() - 7}) {
    expect_refused(Bytes().u64(n).raw("{}"),
                   {"header length", "at most 100000000 bytes", "found " + std::to_string(n)});
  }
}

TEST(SafeTensors, RefusesHeadersThatDoNotBeginWithABrace) {
  expect_refused(file_of(" {}"), {"header", "expected '{' first", "found ' '"});
  expect_refused(file_of("[]"), {"header", "expected '{' first", "found '['"});
  expect_refused(file_of(""), {"header", "expected '{' first"});
}

TEST(SafeTensors, AcceptsOnlySpacesBehindTheHeader) {
  EXPECT_NO_THROW(parse(file_of("{}      ")));
  expect_refused(file_of("{}\n"), {"header", "only spaces", "found '\\x0a'"});
  expect_refused(file_of(std::string_view("{}\0", 3)), {"header", "only spaces", "found '\\x00'"});
  expect_refused(file_of("{} {}"), {"header", "byte 4"});
  expect_refused(file_of("{"), {"header"});
}

TEST(SafeTensors, RefusesHeadersThatAreNotUtf8Json) {
  expect_refused(file_of("{\"\xFF\":1}"), {"header", "byte 3", "UTF-8"});
  expect_refused(file_of("{'w':1}"), {"header", "byte 2"});
}

TEST(SafeTensors, RefusesDuplicateKeys) {
  const std::string w = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_refused(file_of("{" + w + "," + w + "}", "x"), {"header", "'w'", "twice"});
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), {"'__metadata__'", "twice"});
  expect_refused(file_of(R"({"__metadata__":{"a":"","a":""}})"), {"'a'", "twice"});
  expect_refused(file_of(R"({"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
                 {"'dtype'", "twice"});
}

TEST(SafeTensors, RefusesHeadersThatNestDeeperThanEightLevels) {
  const auto with_depth = [](size_t n) {  // the header and the tensor are two levels
    return file_of(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)" + std::string(n - 2, '[') +
                       std::string(n - 2, ']') + "}}",
                   "x");
  };
  EXPECT_NO_THROW(parse(with_depth(8)));
  expect_refused(with_depth(9), {"header", "deeper", "8 levels"});
}

TEST(SafeTensors, AcceptsOnlyStringsAsMetadata) {
  EXPECT_NO_THROW(parse(file_of(R"({"__metadata__":{"a":"b"}})")));
  expect_refused(file_of(R"({"__metadata__":{"a":1}})"), {"__metadata__", "'a'", "expected a string", "found number"});
  expect_refused(file_of(R"({"__metadata__":[]})"), {"__metadata__", "expected an object", "found array"});
}

TEST(SafeTensors, RefusesTensorsThatLackAMember) {
  expect_refused(file_of(R"({"w":{"shape":[1],"data_offsets":[0,1]}})", "x"), {"'w'", "member 'dtype'", "found none"});
  expect_refused(file_of(R"({"w":{"dtype":"U8","data_offsets":[0,1]}})", "x"), {"'w'", "member 'shape'"});
  expect_refused(file_of(R"({"w":{"dtype":"U8","shape":[1]}})", "x"), {"'w'", "member 'data_offsets'"});
  expect_refused(file_of(R"({"w":5})"), {"'w'", "expected an object", "found number"});
}

TEST(SafeTensors, RefusesMembersOfAnotherKind) {
  expect_refused(file_of(R"({"w":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "x"),
                 {"'w'", "dtype", "expected a string", "found number"});
  expect_refused(file_of(one("U8", "1", "[0,1]"), "x"), {"'w'", "shape", "expected an array", "found number"});
  expect_refused(file_of(one("U8", "[1]", "{}"), "x"), {"'w'", "data_offsets", "expected an array", "found object"});
}

TEST(SafeTensors, AcceptsOnlyIntegersAsNumbers) {
  for (const char* number : {"1.0", "-1", "1e0", "\"1\"", "null", "true", "18446744073709551616"}) {
    const std::string list = "[" + std::string(number) + "]";
    expect_refused(file_of(one("U8", list, "[0,1]"), "x"), {"'w'", "shape", "expected integers"});
    expect_refused(file_of(one("U8", "[1]", "[0," + std::string(number) + "]"), "x"),
                   {"'w'", "data_offsets", "expected integers"});
  }
}

TEST(SafeTensors, ReadsNumbersAbove2To53Exactly) {
  expect_refused(file_of(one("U8", "[9007199254740993]", "[0,9007199254740992]")),
                 {"expected 9007199254740993 bytes", "found 9007199254740992"});
}

TEST(SafeTensors, AcceptsExactlyTwoOffsets) {
  expect_refused(file_of(one("U8", "[1]", "[0]"), "x"), {"'w'", "begin and end", "found 1"});
  expect_refused(file_of(one("U8", "[1]", "[0,1,1]"), "x"), {"'w'", "begin and end", "found 3"});
}

TEST(SafeTensors, RefusesOffsetsThatRunBackwards) {
  EXPECT_NO_THROW(parse(file_of(one("U8", "[0]", "[0,0]"))));
  expect_refused(file_of(one("U8", "[0]", "[1,0]"), "x"), {"'w'", "begin <= end", "1 and 0"});
  expect_refused(file_of(one("U8", "[1]", "[18446744073709551615,0]"), "x"), {"'w'", "begin <= end"});
}

TEST(SafeTensors, RefusesHolesAndOverlaps) {
  const auto two = [](const char* second, std::string_view data) {
    return file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],)"
                   R"("data_offsets":)" +
                       std::string(second) + "}}",
                   data);
  };
  EXPECT_NO_THROW(parse(two("[2,4]", "xxxx")));
  expect_refused(two("[3,5]", "xxxxx"), {"'b'", "expected to begin at 2", "found 3"});
  expect_refused(two("[1,3]", "xxx"), {"'b'", "expected to begin at 2", "found 1"});
  expect_refused(two("[0,2]", "xx"), {"'b'", "expected to begin at 2", "found 0"});
  expect_refused(file_of(one("U8", "[1]", "[1,2]"), "xx"), {"'w'", "expected to begin at 0", "found 1"});
}

TEST(SafeTensors, RefusesElementCountsThatOverflow) {
  expect_refused(file_of(one("U8", "[4294967296,4294967296]", "[0,0]")), {"'w'", "overflows"});
  expect_refused(file_of(one("U8", "[4294967296,4294967296,0]", "[0,0]")), {"'w'", "overflows"});
  expect_refused(file_of(one("U8", "[4294967296,2147483648]", "[0,0]")), {"'w'", "number of elements overflows"});
  expect_refused(file_of(one("U8", "[9223372036854775808]", "[0,0]")), {"'w'", "below 2^63"});
  expect_refused(file_of(one("U8", "[18446744073709551615]", "[0,0]")), {"'w'", "below 2^63"});
  expect_refused(file_of(one("F64", "[288230376151711744]", "[0,0]")), {"'w'", "size in bits overflows"});
  expect_refused(file_of(one("F64", "[288230376151711743]", "[0,0]")), {"'w'", "expected 2305843009213693944 bytes"});
}

TEST(SafeTensors, RefusesSizesThatAreNotWholeBytes) {
  EXPECT_NO_THROW(parse(file_of(one("F4", "[2]", "[0,1]"), "x")));
  expect_refused(file_of(one("F4", "[3]", "[0,2]"), "xx"), {"'w'", "whole bytes", "found 12 bits"});
  expect_refused(file_of(one("F6_E2M3", "[3]", "[0,3]"), "xxx"), {"'w'", "whole bytes", "found 18 bits"});
}

TEST(SafeTensors, RefusesTensorsPastTheEndOfTheFile) {
  EXPECT_NO_THROW(parse(file_of(one("U8", "[4]", "[0,4]"), "xxxx")));
  expect_refused(file_of(one("U8", "[4]", "[0,4]"), "xxx"),
                 {"tensor 'w' lies past the end of the file", "expected 4 bytes", "found 3"});
  expect_refused(file_of(one("U8", "[1152921504606846976]", "[0,1152921504606846976]"), "xxx"),
                 {"past the end of the file", "found 3"});
}

TEST(SafeTensors, RefusesBytesBehindTheLastTensor) {
  expect_refused(file_of(one("U8", "[4]", "[0,4]"), "xxxxx"), {"end with the last tensor", "4 bytes", "found 5"});
  expect_refused(file_of("{}", "x"), {"end with the last tensor", "0 bytes", "found 1"});
}

TEST(SafeTensors, NamesOtherKindsOfFiles) {
  expect_refused(Bytes("version https://git-lfs.github.com/spec/v1\n"), {"t.safetensors", "Git LFS pointer"});
  expect_refused(Bytes("GGUF").u32(3).zeros(16), {"a GGUF file"});
  expect_refused(Bytes("PK\x03\x04.............."), {"zip"});
  expect_refused(Bytes().zeros(64), {"zeros"});
}

// Folders

std::string shard(std::string_view name) {
  return file_of(R"({")" + std::string(name) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x").text();
}

constexpr const char* kIndex = "model.safetensors.index.json";

TEST(SafeTensorsModel, OpensASingleFile) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard("a"));
  SafeTensorsModel opened = SafeTensorsModel::open(folder.path());
  const SafeTensorsModel model = std::move(opened);  // the views stay good
  ASSERT_NE(model.find("a"), nullptr);
  EXPECT_EQ(as_text(model.find("a")->bytes), "x");
  EXPECT_EQ(model.find("b"), nullptr);
  EXPECT_EQ(model.tensors().size(), 1U);
  EXPECT_EQ(model.files().size(), 1U);
}

TEST(SafeTensorsModel, OpensACheckpointThatPyTorchWrote) {
  KDA_SHARED_OR_SKIP(shared);
  const std::filesystem::path folder = shared / "demo-model" / "checkpoint";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no demo model in the shared data";
  const SafeTensorsModel model = SafeTensorsModel::open(folder);
  const SafeTensor* embedding = model.find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  ASSERT_EQ(embedding->shape.size(), 2U);
  const Json config = read_json_file(folder / "config.json");
  EXPECT_EQ(embedding->shape[0], config.at("vocab_size"));
  EXPECT_EQ(embedding->shape[1], config.at("hidden_size"));
}

TEST(SafeTensorsModel, OpensTheFilesThatTheIndexNames) {
  const TemporaryFolder folder;
  folder.write("any-1-of-000096.safetensors", shard("a"));
  folder.write("..odd name", shard("b"));
  folder.write("model.safetensors", "not named by the index, not read");
  folder.write(kIndex, R"({"metadata":{"total_size":2.0},
                           "weight_map":{"a":"any-1-of-000096.safetensors","b":"..odd name"}})");
  const SafeTensorsModel model = SafeTensorsModel::open(folder.path());
  EXPECT_EQ(model.tensors().size(), 2U);
  EXPECT_EQ(model.files().size(), 2U);
  EXPECT_NE(model.find("a"), nullptr);
  EXPECT_NE(model.find("b"), nullptr);
}

TEST(SafeTensorsModel, FollowsLinksAsTheHubCacheHasThem) {
  const TemporaryFolder folder;
  folder.write("blobs/0123", shard("a"));
  folder.write("snapshot/config.json", "{}");
  std::filesystem::create_symlink("../blobs/0123", folder.path() / "snapshot/model.safetensors");
  EXPECT_NE(SafeTensorsModel::open(folder.path() / "snapshot").find("a"), nullptr);
}

TEST(SafeTensorsModel, RefusesFileNamesThatLeaveTheFolder) {
  const TemporaryFolder outside;
  outside.write("secret", shard("a"));
  for (const std::string& name :
       {std::string("../secret"), (outside.path() / "secret").string(), std::string("sub/x"), std::string("..\\\\x"),
        std::string(".."), std::string("."), std::string(), std::string("a\\u0000b")}) {
    const TemporaryFolder folder;
    folder.write(kIndex, R"({"weight_map":{"a":")" + name + R"("}})");
    expect_error(ErrorCode::kFormat, {kIndex, "'a'", "in the same folder"},
                 [&] { (void)SafeTensorsModel::open(folder.path()); });
  }
}

TEST(SafeTensorsModel, RefusesAnIndexWithoutAMap) {
  const TemporaryFolder folder;
  for (const char* index : {"{}", "[]", R"({"weight_map":[]})", R"({"weight_map":{}})", "7"}) {
    folder.write(kIndex, index);
    expect_error(ErrorCode::kFormat, {kIndex, "'weight_map'"}, [&] { (void)SafeTensorsModel::open(folder.path()); });
  }
  folder.write(kIndex, R"({"weight_map":{"a":5}})");
  expect_error(ErrorCode::kFormat, {kIndex, "'a'", "name of a file"},
               [&] { (void)SafeTensorsModel::open(folder.path()); });
}

TEST(SafeTensorsModel, RefusesATensorThatIsNotInItsFile) {
  const TemporaryFolder folder;
  folder.write("x", shard("a"));
  folder.write(kIndex, R"({"weight_map":{"a":"x","b":"x"}})");
  expect_error(ErrorCode::kFormat, {"/x", "'b'", "found none"}, [&] { (void)SafeTensorsModel::open(folder.path()); });
}

TEST(SafeTensorsModel, RefusesATensorThatTheIndexDoesNotName) {
  const TemporaryFolder folder;
  folder.write("x", shard("a"));
  folder.write("y", shard("b"));
  folder.write("z", shard("c"));
  folder.write(kIndex, R"({"weight_map":{"a":"x","b":"y","d":"z"}})");
  expect_error(ErrorCode::kFormat, {"/z", "'c'", "nowhere"}, [&] { (void)SafeTensorsModel::open(folder.path()); });
}

TEST(SafeTensorsModel, RefusesATensorInTwoFiles) {
  const TemporaryFolder folder;
  folder.write("x", shard("a"));
  folder.write("y", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                            "xx")
                        .text());
  folder.write(kIndex, R"({"weight_map":{"a":"x","b":"y"}})");
  expect_error(ErrorCode::kFormat, {"/y", "'a'", "in 'x'"}, [&] { (void)SafeTensorsModel::open(folder.path()); });
}

TEST(SafeTensorsModel, NamesAFileThatIsMissingOrAPointer) {
  const TemporaryFolder folder;
  expect_error(ErrorCode::kNotFound, {"model.safetensors", kIndex, "neither"},
               [&] { (void)SafeTensorsModel::open(folder.path()); });
  folder.write(kIndex, R"({"weight_map":{"a":"x"}})");
  expect_error(ErrorCode::kNotFound, {"/x", "missing", "download"},
               [&] { (void)SafeTensorsModel::open(folder.path()); });
  folder.write("x", "version https://git-lfs.github.com/spec/v1\n");
  expect_error(ErrorCode::kFormat, {"/x", "Git LFS pointer"}, [&] { (void)SafeTensorsModel::open(folder.path()); });
  folder.write(kIndex, "version https://git-lfs.github.com/spec/v1\n");
  expect_error(ErrorCode::kFormat, {kIndex, "Git LFS pointer"}, [&] { (void)SafeTensorsModel::open(folder.path()); });
}

}  // namespace
}  // namespace kda
