#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"
#include "formats/gguf.h"

namespace kda {
namespace {

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
  writer.add_value("i64", {GgufType::kInt64, INT64_MIN});
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
  EXPECT_EQ(file.get_int("i64"), INT64_MIN);
  EXPECT_EQ(file.get_float("f64"), 0.1);
  EXPECT_EQ(file.get_int("absent"), std::nullopt);
  EXPECT_EQ(file.find("absent"), nullptr);
}

}  // namespace
}  // namespace kda
