#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "formats/gguf.h"
#include "unit/formats/support.h"

namespace kda {
namespace {

using test::as_text;
using test::Bytes;
using test::expect_error;

/// n bytes that tell their position.
std::vector<std::byte> pattern(size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 7 + 1);
  return out;
}

TEST(GgufWriter, WritesTheBytesThatTheFormatAsksFor) {
  const std::vector<std::byte> data = pattern(8);
  GgufWriter writer;
  writer.add_uint32("n", 7);
  writer.add_string_array("s", std::vector<std::string>{"ab", ""});
  const int64_t ne[] = {2, 1};
  writer.add_tensor("w", TensorType::kF32, ne, data);

  Bytes expected("GGUF");
  expected.u32(3).u64(1).u64(2);
  expected.u64(1).raw("n").u32(4).u32(7);
  expected.u64(1).raw("s").u32(9).u32(8).u64(2).u64(2).raw("ab").u64(0);
  expected.u64(1).raw("w").u32(2).u64(2).u64(1).u32(0).u64(0);
  expected.pad_to(32).raw(as_text(data)).pad_to(32);
  EXPECT_EQ(as_text(writer.finish()), expected.text());
}

TEST(GgufRoundTrip, KeepsEveryScalarType) {
  GgufWriter writer;
  writer.add_value("u8", {GgufType::kUint8, uint64_t{200}});
  writer.add_value("i8", {GgufType::kInt8, int64_t{-100}});
  writer.add_uint16("u16", 65535);
  writer.add_value("i16", {GgufType::kInt16, int64_t{-32768}});
  writer.add_uint32("u32", 4'000'000'000U);
  writer.add_int32("i32", -5);
  writer.add_float32("f32", 0.1F);
  writer.add_bool("yes", true);
  writer.add_bool("no", false);
  writer.add_string("text", "caf\xC3\xA9");
  writer.add_string("empty", "");
  writer.add_value("u64", {GgufType::kUint64, uint64_t{1} << 63U});
  writer.add_value("i64", {GgufType::kInt64, std::numeric_limits<int64_t>::min()});
  writer.add_value("f64", {GgufType::kFloat64, 0.1});
  const auto bytes = writer.finish();
  const GgufFile file = GgufFile::parse(bytes, "t.gguf");

  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.alignment(), 32U);
  ASSERT_EQ(file.metadata().size(), 14U);
  EXPECT_EQ(file.metadata()[0].first, "u8");
  EXPECT_EQ(file.metadata()[13].first, "f64");
  EXPECT_EQ(file.get_int("u8"), 200);
  EXPECT_EQ(file.get_int("i8"), -100);
  EXPECT_EQ(file.get_int("u16"), 65535);
  EXPECT_EQ(file.get_int("i16"), -32768);
  EXPECT_EQ(file.get_int("u32"), 4'000'000'000);
  EXPECT_EQ(file.get_int("i32"), -5);
  EXPECT_EQ(file.get_float("f32"), double{0.1F});
  EXPECT_EQ(file.get_bool("yes"), true);
  EXPECT_EQ(file.get_bool("no"), false);
  EXPECT_EQ(file.get_string("text"), "caf\xC3\xA9");
  EXPECT_EQ(file.get_string("empty"), "");
  EXPECT_EQ(std::get<uint64_t>(file.find("u64")->value), uint64_t{1} << 63U);
  EXPECT_EQ(file.get_int("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.get_float("f64"), 0.1);
  EXPECT_EQ(file.find("u8")->type, GgufType::kUint8);
  EXPECT_EQ(file.find("i64")->type, GgufType::kInt64);
}

TEST(GgufRoundTrip, KeepsArrays) {
  GgufWriter writer;
  writer.add_int32_array("ints", std::vector<int32_t>{1, -2, 3});
  writer.add_float32_array("floats", std::vector<float>{0.5F, -1.0F});
  writer.add_string_array("strings", std::vector<std::string>{"a", "", "bcd"});
  writer.add_int32_array("no ints", {});
  writer.add_float32_array("no floats", {});
  writer.add_string_array("no strings", {});
  const auto bytes = writer.finish();
  const GgufFile file = GgufFile::parse(bytes, "t.gguf");
  EXPECT_EQ(file.get_ints("ints"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.get_floats("floats"), (std::vector<double>{0.5, -1.0}));
  EXPECT_EQ(file.get_strings("strings"), (std::vector<std::string_view>{"a", "", "bcd"}));
  EXPECT_EQ(file.get_ints("no ints"), std::vector<int64_t>{});
  EXPECT_EQ(file.get_floats("no floats"), std::vector<double>{});
  EXPECT_EQ(file.get_strings("no strings"), std::vector<std::string_view>{});
}

TEST(GgufRoundTrip, CopiesValuesOfAnotherFileAsTheyAre) {
  test::RawGguf raw;
  const Bytes inner = Bytes().u32(8).u64(2).str("x").str("");
  raw.add("nested", 9, Bytes().u32(9).u64(2).raw(inner).raw(Bytes().u32(0).u64(3).raw("abc")));
  raw.add("empty", 9, Bytes().u32(9).u64(0));
  raw.add("u8", 0, Bytes().u8(9));
  raw.add("f64", 12, Bytes().number(0.25));
  raw.add("bools", 9, Bytes().u32(7).u64(2).u8(1).u8(0));
  raw.add("strings", 9, Bytes().u32(8).u64(2).str("one").str("two"));
  raw.add("text", 8, Bytes().str("t"));
  const Bytes original = raw.build();
  const GgufFile file = GgufFile::parse(original.span(), "t.gguf");
  GgufWriter writer;
  for (const auto& [key, value] : file.metadata()) writer.add_value(key, value);
  EXPECT_EQ(as_text(writer.finish()), original.text());
}

TEST(GgufRoundTrip, KeepsTensorsWithTheirPadding) {
  const std::vector<std::byte> a = pattern(4 * 3);
  const std::vector<std::byte> b = pattern(34 * 4);
  for (const uint32_t alignment : {32U, 64U, 1U}) {
    GgufWriter writer;
    if (alignment != 32) writer.set_alignment(alignment);
    const int64_t ne_a[] = {3};
    const int64_t ne_b[] = {64, 1, 2};
    writer.add_tensor("a", TensorType::kF32, ne_a, a);
    writer.add_tensor("b", TensorType::kQ8_0, ne_b, b);
    const auto bytes = writer.finish();
    EXPECT_EQ(bytes.size() % alignment, 0U);
    const GgufFile file = GgufFile::parse(bytes, "t.gguf");
    EXPECT_EQ(file.alignment(), alignment);
    EXPECT_TRUE(file.warnings().empty());
    ASSERT_EQ(file.tensors().size(), 2U);
    EXPECT_EQ(as_text(file.tensors()[0].bytes), as_text(a));
    EXPECT_EQ(as_text(file.tensors()[1].bytes), as_text(b));
    EXPECT_EQ(file.tensors()[1].n_dims, 3);
    EXPECT_EQ(file.tensors()[1].ne[0], 64);
    EXPECT_EQ(file.tensors()[1].ne[2], 2);
    EXPECT_EQ(static_cast<size_t>(file.tensors()[1].bytes.data() - bytes.data()) % alignment, 0U);
  }
}

TEST(GgufRoundTrip, WritesVersion2) {
  GgufWriter writer;
  writer.set_version(2);
  writer.add_uint32("n", 1);
  const auto bytes = writer.finish();
  EXPECT_EQ(GgufFile::parse(bytes, "t.gguf").version(), 2U);
}

TEST(GgufRoundTrip, CopiesTheAlignmentOfAnotherFile) {
  GgufWriter first;
  first.set_alignment(128);
  const auto bytes = first.finish();
  const GgufFile file = GgufFile::parse(bytes, "t.gguf");
  GgufWriter second;
  second.add_value("general.alignment", *file.find("general.alignment"));
  const std::vector<std::byte> data = pattern(4);
  const int64_t ne[] = {1};
  second.add_tensor("w", TensorType::kF32, ne, data);
  const auto copy = second.finish();
  EXPECT_EQ(copy.size() % 128, 0U);
  EXPECT_EQ(GgufFile::parse(copy, "t.gguf").data_offset(), 128U);
}

TEST(GgufWriter, WritesTheSameFileAsBytes) {
  const test::TemporaryFolder folder;
  const std::vector<std::byte> data = pattern(8);
  const int64_t ne[] = {2};
  GgufWriter writer;
  writer.add_string("k", "v");
  writer.add_tensor("a", TensorType::kF32, ne, data);
  writer.add_tensor("b", TensorType::kF32, ne, data);
  const auto path = folder.write("t.gguf", "what was there before");
  writer.write(path);
  EXPECT_EQ(as_text(MappedFile(path).bytes()), as_text(writer.finish()));
}

TEST(GgufWriter, LeavesNothingBehindWhenItCannotWrite) {
  const test::TemporaryFolder folder;
  GgufWriter writer;
  expect_error(ErrorCode::kIo, {"t.gguf", "cannot create"}, [&] { writer.write(folder.path() / "absent" / "t.gguf"); });
  std::filesystem::create_directory(folder.path() / "taken.gguf");
  expect_error(ErrorCode::kIo, {"taken.gguf", "found a folder"}, [&] { writer.write(folder.path() / "taken.gguf"); });
  const std::filesystem::directory_iterator entries(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(GgufWriter, RefusesWhatTheReaderWouldRefuse) {
  const std::vector<std::byte> data = pattern(8);
  const int64_t two[] = {2};
  GgufWriter writer;
  writer.add_uint32("k", 1);
  writer.add_tensor("w", TensorType::kF32, two, data);
  const auto refuses = [](std::initializer_list<std::string_view> words, auto&& f) {
    expect_error(ErrorCode::kUsage, words, f);
  };
  refuses({"'k'", "twice"}, [&] { writer.add_string("k", "x"); });
  refuses({"''", "1 to 65535"}, [&] { writer.add_uint32("", 1); });
  refuses({"printable"}, [&] { writer.add_uint32("caf\xC3\xA9", 1); });
  refuses({"65536"}, [&] { writer.add_uint32(std::string(65536, 'k'), 1); });
  refuses({"version", "4"}, [&] { writer.set_version(4); });
  refuses({"power of two", "48"}, [&] { writer.set_alignment(48); });
  refuses({"'general.alignment'", "expected UINT32"}, [&] { writer.add_string("general.alignment", "x"); });
  refuses({"'general.alignment'", "expected UINT32", "found ARRAY"},
          [&] { writer.add_int32_array("general.alignment", {}); });
  refuses({"'general.alignment'", "expected UINT32", "found ARRAY"},
          [&] { writer.add_string_array("general.alignment", {}); });
  refuses({"'w'", "twice"}, [&] { writer.add_tensor("w", TensorType::kF32, two, data); });
  refuses({"1 to 63", "64"}, [&] { writer.add_tensor(std::string(64, 'n'), TensorType::kF32, two, data); });
  refuses({"''"}, [&] { writer.add_tensor("", TensorType::kF32, two, data); });
  refuses({"1 to 4", "found 0"}, [&] { writer.add_tensor("a", TensorType::kF32, {}, data); });
  refuses({"'b'", "expected 8 bytes", "found 7"},
          [&] { writer.add_tensor("b", TensorType::kF32, two, std::span(data).first(7)); });
  const int64_t zero[] = {2, 0};
  refuses({"positive", "found 0"}, [&] { writer.add_tensor("c", TensorType::kF32, zero, {}); });
  const int64_t huge[] = {int64_t{1} << 40U, int64_t{1} << 40U};
  refuses({"less than 2^63"}, [&] { writer.add_tensor("d", TensorType::kF32, huge, data); });
  refuses({"multiple of 32", "Q8_0", "found 2"}, [&] { writer.add_tensor("e", TensorType::kQ8_0, two, data); });
}

}  // namespace
}  // namespace kda
