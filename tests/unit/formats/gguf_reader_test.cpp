// One test a rule of the reader: the value at the border passes, the next one is refused.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <utility>

#include "formats/gguf.h"
#include "unit/formats/support.h"

namespace kda {
namespace {

using test::Bytes;
using test::expect_error;
using test::RawGguf;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;

/// A parsed file together with the bytes that it looks at.
class Parsed {
 public:
  explicit Parsed(Bytes bytes) : bytes_(std::move(bytes)), file_(GgufFile::parse(bytes_.span(), "t.gguf")) {}
  Parsed(const Parsed&) = delete;
  Parsed& operator=(const Parsed&) = delete;
  const GgufFile* operator->() const { return &file_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_.span(); }

 private:
  Bytes bytes_;
  GgufFile file_;
};

Parsed parse(Bytes bytes) { return Parsed(std::move(bytes)); }

void expect_refused(const Bytes& bytes, std::initializer_list<std::string_view> words,
                    ErrorCode code = ErrorCode::kFormat) {
  // A copy that ends where the bytes end, so that a sanitizer sees reads behind them.
  const std::vector<std::byte> exact(bytes.span().begin(), bytes.span().end());
  expect_error(code, words, [&] { (void)GgufFile::parse(exact, "t.gguf"); });
}

RawGguf with_tensor() { return RawGguf().add_tensor("w", {8}, kF32, 0, 32); }

TEST(GgufReader, ReadsAFileMadeByHand) {
  const Bytes bytes = RawGguf()
                          .add("general.architecture", kString, Bytes().str("kimi-linear"))
                          .add("n", kUint32, Bytes().u32(7))
                          .add_tensor("a", {2, 3}, kF32, 0, 32)
                          .add_tensor("b", {32, 1, 2, 1}, kQ8_0, 32, 68)
                          .build();
  const Parsed file = parse(bytes);
  EXPECT_EQ(file->name(), "t.gguf");
  EXPECT_EQ(file->get_string("general.architecture"), "kimi-linear");
  EXPECT_EQ(file->get_int("n"), 7);
  ASSERT_EQ(file->tensors().size(), 2U);
  const GgufTensor& a = *file->find_tensor("a");
  EXPECT_EQ(a.n_dims, 2);
  EXPECT_EQ(a.ne[0], 2);
  EXPECT_EQ(a.ne[1], 3);
  EXPECT_EQ(a.ne[2], 1);
  EXPECT_EQ(a.n_elements(), 6);
  EXPECT_EQ(a.bytes.size(), 24U);
  EXPECT_EQ(a.bytes.data(), file.bytes().data() + file->data_offset());
  const GgufTensor& b = *file->find_tensor("b");
  EXPECT_EQ(b.type, TensorType::kQ8_0);
  EXPECT_EQ(b.n_dims, 4);
  EXPECT_EQ(b.bytes.size(), 68U);
  EXPECT_EQ(b.bytes.data() + b.bytes.size(), file.bytes().data() + file.bytes().size());
  EXPECT_EQ(file->data_offset() % 32, 0U);
  EXPECT_EQ(file->find_tensor("c"), nullptr);
  EXPECT_TRUE(file->warnings().empty());
}

// Header

TEST(GgufReader, AcceptsVersions2And3Only) {
  for (const uint32_t version : {2U, 3U}) {
    RawGguf raw = with_tensor();
    raw.version = version;
    EXPECT_EQ(parse(raw.build())->version(), version);
  }
  RawGguf raw = with_tensor();
  for (const uint32_t version : {0U, 4U, 0xFFFFFFFFU}) {
    raw.version = version;
    expect_refused(raw.build(), {"t.gguf", "version is " + std::to_string(version), "expected 2 or 3"},
                   ErrorCode::kUnsupported);
  }
}

TEST(GgufReader, RefusesVersion1AndSaysWhatToDo) {
  RawGguf raw = with_tensor();
  raw.version = 1;
  expect_refused(raw.build(), {"version is 1", "obsolete", "convert"}, ErrorCode::kUnsupported);
}

TEST(GgufReader, RefusesBigEndianFilesByName) {
  RawGguf raw = with_tensor();
  raw.version = 0x03000000;
  expect_refused(raw.build(), {"big-endian", "little-endian"}, ErrorCode::kUnsupported);
}

TEST(GgufReader, NamesOtherKindsOfFiles) {
  const std::string lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 30061058720\n";
  expect_refused(Bytes(lfs), {"t.gguf", "expected a GGUF file", "Git LFS pointer", "git lfs pull"});
  expect_refused(Bytes().u64(2).raw("{}"), {"safetensors"});
  expect_refused(Bytes("PK\x03\x04 and so on"), {"zip"});
  expect_refused(Bytes("\n<!DOCTYPE html><html>"), {"web page"});
  expect_refused(Bytes("<HTML>"), {"web page"});
  expect_refused(Bytes("tjgg....").zeros(20), {"older than GGUF"});
  expect_refused(Bytes().zeros(4096), {"zeros", "did not finish"});
  expect_refused(Bytes("hello"), {"another kind"});
  expect_refused(Bytes(""), {"another kind"});
}

TEST(GgufReader, RefusesEveryTruncationOfTheTables) {
  const std::string whole = RawGguf()
                                .add("s", kString, Bytes().str("text"))
                                .add("a", kArray, Bytes().u32(kString).u64(2).str("x").str("yz"))
                                .add("n", kArray, Bytes().u32(kArray).u64(1).u32(kUint32).u64(1).u32(5))
                                .add_tensor("w", {8}, kF32, 0, 32)
                                .build()
                                .text();
  ASSERT_NO_THROW((void)parse(Bytes(whole)));
  for (size_t n = 4; n < whole.size(); ++n) {
    const std::vector<std::byte> part = [&] {
      const auto bytes = std::as_bytes(std::span(whole)).first(n);
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }();
    expect_error(ErrorCode::kFormat, {"t.gguf", "expected"}, [&] { (void)GgufFile::parse(part, "t.gguf"); });
  }
}

TEST(GgufReader, RefusesMoreMetadataThanTheBytesCanHold) {
  RawGguf raw;
  raw.data.zeros(130);  // ten entries of the smallest size
  raw.n_metadata = 11;
  expect_refused(raw.build(), {"header", "metadata count is 11", "expected at most 10"});
  raw.n_metadata = 10;  // passes this check, and then the first key is empty
  expect_refused(raw.build(), {"metadata entry 0", "key has 0 bytes"});
  for (const uint64_t n : {uint64_t{1} << 63U, kMax64, kMax64 / 13 + 2}) {
    raw.n_metadata = n;
    expect_refused(raw.build(), {"metadata count is " + std::to_string(n), "expected at most 10"});
  }
}

TEST(GgufReader, RefusesMoreTensorsThanTheBytesCanHold) {
  RawGguf raw;
  raw.data.zeros(240);
  raw.n_tensors = 11;
  expect_refused(raw.build(), {"header", "tensor count is 11", "expected at most 10"});
  raw.n_tensors = 10;
  expect_refused(raw.build(), {"tensor 0", "name has 0 bytes"});
  for (const uint64_t n : {uint64_t{1} << 63U, kMax64, kMax64 / 24 + 2}) {
    raw.n_tensors = n;
    expect_refused(raw.build(), {"tensor count is " + std::to_string(n), "expected at most 10"});
  }
}

TEST(GgufReader, RefusesACountOfOneMoreThanThereIs) {
  RawGguf raw = with_tensor();
  raw.n_tensors = 2;  // the second is read from the zeros of the padding and the data
  expect_refused(raw.build(), {"tensor 1", "name has 0 bytes"});
}

// Keys and values

TEST(GgufReader, AcceptsKeysOf1To65535Bytes) {
  const std::string longest(65535, 'k');
  EXPECT_EQ(parse(RawGguf().add(longest, kUint32, Bytes().u32(1)).build())->get_int(longest), 1);
  EXPECT_EQ(parse(RawGguf().add("k", kUint32, Bytes().u32(1)).build())->get_int("k"), 1);
  expect_refused(RawGguf().add(longest + "k", kUint32, Bytes().u32(1)).build(), {"entry 0", "65536", "1 to 65535"});
  expect_refused(RawGguf().add("", kUint32, Bytes().u32(1)).build(), {"entry 0", "key has 0 bytes", "1 to 65535"});
}

TEST(GgufReader, RefusesKeysThatAreNotPrintableAscii) {
  for (const std::string_view key : {std::string_view("a\0b", 3), std::string_view("a\x1F"), std::string_view("a\x7F"),
                                     std::string_view("caf\xC3\xA9")}) {
    expect_refused(RawGguf().add(key, kUint32, Bytes().u32(1)).build(), {"entry 0", "\\x", "printable ASCII"});
  }
  EXPECT_EQ(parse(RawGguf().add(" ~", kUint32, Bytes().u32(1)).build())->get_int(" ~"), 1);
}

TEST(GgufReader, RefusesDuplicateKeys) {
  RawGguf raw;
  raw.add("same", kUint32, Bytes().u32(1)).add("other", kUint32, Bytes().u32(1)).add("same", kString, Bytes().str("x"));
  expect_refused(raw.build(), {"key 'same'", "twice", "expected once"});
}

TEST(GgufReader, RefusesStringsLongerThanTheFile) {
  // The value is the last thing in the file: four bytes of text.
  const auto with_length = [](uint64_t n) { return RawGguf().add("s", kString, Bytes().u64(n).raw("text")).build(); };
  EXPECT_EQ(parse(with_length(4))->get_string("s"), "text");
  expect_refused(with_length(5), {"key 's'", "expected 5 bytes", "found 4"});
  for (const uint64_t n : {uint64_t{1} << 63U, kMax64 - 40, kMax64 - 7, kMax64}) {
    expect_refused(with_length(n), {"key 's'", "expected " + std::to_string(n) + " bytes", "found 4"});
  }
}

TEST(GgufReader, AcceptsAnyBytesInStrings) {
  const std::string_view any("\xFF\x00\xC3", 3);
  EXPECT_EQ(parse(RawGguf().add("s", kString, Bytes().str(any)).build())->get_string("s"), any);
}

TEST(GgufReader, RefusesUnknownValueTypes) {
  EXPECT_EQ(parse(RawGguf().add("k", 12, Bytes().number(1.5)).build())->get_float("k"), 1.5);
  for (const uint32_t type : {13U, 0xFFFFFFFFU}) {
    expect_refused(RawGguf().add("k", type, Bytes().u64(0)).build(),
                   {"key 'k'", "value type is " + std::to_string(type), "expected 0 to 12"});
  }
}

TEST(GgufReader, RefusesUnknownElementTypesEvenInEmptyArrays) {
  expect_refused(RawGguf().add("k", kArray, Bytes().u32(13).u64(0)).build(),
                 {"key 'k'", "array element type is 13", "expected 0 to 12"});
}

TEST(GgufReader, TakesAnyNonZeroByteAsTrue) {
  const Parsed file = parse(
      RawGguf().add("zero", 7, Bytes().u8(0)).add("one", 7, Bytes().u8(1)).add("many", 7, Bytes().u8(0xFF)).build());
  EXPECT_EQ(file->get_bool("zero"), false);
  EXPECT_EQ(file->get_bool("one"), true);
  EXPECT_EQ(file->get_bool("many"), true);
}

TEST(GgufReader, RefusesArraysThatGoPastTheEndOfTheFile) {
  const auto with_count = [](uint32_t type, uint64_t n) {
    return RawGguf().add("k", kArray, Bytes().u32(type).u64(n).zeros(16)).build();
  };
  EXPECT_EQ(parse(with_count(kUint32, 4))->get_ints("k")->size(), 4U);
  expect_refused(with_count(kUint32, 5), {"key 'k'", "array of 5 UINT32", "expected at most 4"});
  EXPECT_EQ(parse(with_count(kString, 2))->get_strings("k")->size(), 2U);
  expect_refused(with_count(kString, 3), {"key 'k'", "array of 3 STRING", "expected at most 2"});
  expect_refused(with_count(kArray, 2), {"key 'k'", "array of 2 ARRAY", "expected at most 1"});
  expect_refused(with_count(10, 3), {"array of 3 UINT64", "expected at most 2"});
  expect_refused(with_count(1, 17), {"array of 17 INT8", "expected at most 16"});
}

TEST(GgufReader, RefusesArrayCountsAboveTwoToThe30) {
  const auto with_count = [](uint64_t n) {
    return RawGguf().add("k", kArray, Bytes().u32(0).u64(n).zeros(16)).build();
  };
  expect_refused(with_count(uint64_t{1} << 30U), {"goes past the end of the file"});
  for (const uint64_t n : {(uint64_t{1} << 30U) + 1, uint64_t{1} << 62U, kMax64 / 4 + 2, kMax64}) {
    expect_refused(with_count(n), {"key 'k'", "array count is " + std::to_string(n), "at most 1073741824"});
  }
}

TEST(GgufReader, RefusesAStringInAnArrayThatIsLongerThanTheFile) {
  for (const uint64_t n : {uint64_t{2}, kMax64, kMax64 - 8}) {
    expect_refused(RawGguf().add("k", kArray, Bytes().u32(kString).u64(2).str("").u64(n).raw("x")).build(),
                   {"key 'k'", "string in an array", "found 1"});
  }
}

TEST(GgufReader, KeepsNestedArraysUpToFourLevels) {
  Bytes value = Bytes().u32(kUint32).u64(1).u32(5);  // one level
  for (int depth = 2; depth <= 4; ++depth) value = Bytes().u32(kArray).u64(1).raw(value);
  const Bytes bytes = RawGguf().add("nested", kArray, value).add("after", kUint32, Bytes().u32(9)).build();
  const Parsed file = parse(bytes);
  EXPECT_EQ(file->get_int("after"), 9);
  const auto& array = std::get<GgufArray>(file->find("nested")->value);
  EXPECT_EQ(array.element_type, GgufType::kArray);
  EXPECT_EQ(array.count, 1U);
  EXPECT_EQ(array.bytes.size(), value.size() - 12);
  expect_error(ErrorCode::kFormat, {"'nested'", "expected integers", "ARRAY of 1 ARRAY"},
               [&] { (void)file->get_ints("nested"); });

  expect_refused(RawGguf().add("k", kArray, Bytes().u32(kArray).u64(1).raw(value)).build(),
                 {"key 'k'", "nest deeper", "4 levels"});
}

TEST(GgufReader, AcceptsEmptyArraysOfEveryType) {
  for (uint32_t type = 0; type <= 12; ++type) {
    const Bytes bytes = RawGguf().add("k", kArray, Bytes().u32(type).u64(0)).build();
    const Parsed file = parse(bytes);
    EXPECT_EQ(std::get<GgufArray>(file->find("k")->value).count, 0U);
  }
}

// Alignment

TEST(GgufReader, AcceptsAlignmentsThatArePowersOfTwoUpToOneMebibyte) {
  for (const uint32_t alignment : {1U, 8U, 32U, 64U, 1U << 20U}) {
    RawGguf raw = with_tensor();
    raw.alignment = alignment;
    raw.add("general.alignment", kUint32, Bytes().u32(alignment));
    const Bytes bytes = raw.build();
    const Parsed file = parse(bytes);
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->data_offset() % alignment, 0U);
    EXPECT_EQ(file->tensors()[0].bytes.size(), 32U);
  }
  for (const uint32_t alignment : {0U, 3U, 48U, (1U << 20U) + 1, 1U << 21U, 1U << 31U, 0xFFFFFFFFU}) {
    RawGguf raw = with_tensor();
    raw.add("general.alignment", kUint32, Bytes().u32(alignment));
    expect_refused(raw.build(), {"'general.alignment'", "power of two", "found " + std::to_string(alignment)});
  }
}

TEST(GgufReader, RefusesAlignmentOfAnotherType) {
  RawGguf raw = with_tensor();
  raw.add("general.alignment", 10, Bytes().u64(32));
  expect_refused(raw.build(), {"'general.alignment'", "expected UINT32", "found UINT64"});
}

// Tensor table

TEST(GgufReader, AcceptsTensorNamesOf1To63Bytes) {
  const std::string longest(63, 'n');
  EXPECT_EQ(parse(RawGguf().add_tensor(longest, {8}, kF32, 0, 32).build())->tensors()[0].name, longest);
  expect_refused(RawGguf().add_tensor(longest + "n", {8}, kF32, 0, 32).build(),
                 {"tensor 0", "name has 64 bytes", "1 to 63"});
  expect_refused(RawGguf().add_tensor("", {8}, kF32, 0, 32).build(), {"tensor 0", "name has 0 bytes", "1 to 63"});
}

TEST(GgufReader, RefusesNulBytesInTensorNames) {
  expect_refused(RawGguf().add_tensor(std::string_view("w\0x", 3), {8}, kF32, 0, 32).build(),
                 {"tensor 'w\\x00x'", "NUL"});
}

TEST(GgufReader, RefusesDuplicateTensorNames) {
  expect_refused(RawGguf().add_tensor("w", {8}, kF32, 0, 32).add_tensor("w", {8}, kF32, 32, 32).build(),
                 {"tensor 'w'", "twice", "expected once"});
}

TEST(GgufReader, AcceptsOneToFourDimensions) {
  EXPECT_EQ(parse(RawGguf().add_tensor("w", {2, 2, 2, 1}, kF32, 0, 32).build())->tensors()[0].n_elements(), 8);
  expect_refused(RawGguf().add_tensor("w", {}, kF32, 0, 32).build(), {"tensor 'w'", "0 dimensions", "1 to 4"});
  expect_refused(RawGguf().add_tensor("w", {2, 2, 2, 1, 1}, kF32, 0, 32).build(),
                 {"tensor 'w'", "5 dimensions", "1 to 4"});
}

TEST(GgufReader, RefusesDimensionsOfZeroOrBeyondInt64) {
  for (const uint64_t n : {uint64_t{0}, uint64_t{1} << 63U, kMax64}) {
    expect_refused(RawGguf().add_tensor("w", {2, n}, kF32, 0, 32).build(),
                   {"tensor 'w'", "dimension 1 is " + std::to_string(n), "expected 1 to"});
  }
}

TEST(GgufReader, RefusesElementCountsThatOverflow) {
  constexpr uint64_t kHalf = uint64_t{1} << 32U;
  expect_refused(RawGguf().add_tensor("w", {kHalf, kHalf}, 24, 0, 32).build(), {"tensor 'w'", "number of elements"});
  expect_refused(RawGguf().add_tensor("w", {kHalf, kHalf / 2}, 24, 0, 32).build(), {"number of elements overflows"});
  // 2^62 elements of one byte fit the arithmetic, but not the file->
  expect_refused(RawGguf().add_tensor("w", {kHalf, kHalf / 4}, 24, 0, 32).build(), {"past the end of the file"});
}

TEST(GgufReader, RefusesByteSizesThatOverflow) {
  constexpr uint64_t kQuarter = uint64_t{1} << 61U;
  expect_refused(RawGguf().add_tensor("w", {kQuarter}, kF32, 0, 32).build(), {"tensor 'w'", "size in bytes overflows"});
  expect_refused(RawGguf().add_tensor("w", {kQuarter - 1}, kF32, 0, 32).build(), {"past the end of the file"});
}

TEST(GgufReader, NamesWithdrawnTypes) {
  const std::pair<uint32_t, std::string_view> withdrawn[] = {
      {4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
      {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
  };
  for (const auto& [type, name] : withdrawn) {
    expect_refused(RawGguf().add_tensor("w", {8}, type, 0, 32).build(), {"tensor 'w'", name, "withdrawn", "convert"});
  }
}

TEST(GgufReader, RefusesUnknownTensorTypes) {
  ASSERT_NO_THROW((void)parse(RawGguf().add_tensor("w", {64}, 42, 0, 18).build()));
  for (const uint32_t type : {43U, 0xFFFFFFFFU}) {
    expect_refused(RawGguf().add_tensor("w", {64}, type, 0, 64).build(),
                   {"tensor 'w'", "type is " + std::to_string(type), "below 43"});
  }
}

TEST(GgufReader, RefusesRowsThatAreNotWholeBlocks) {
  ASSERT_NO_THROW((void)parse(RawGguf().add_tensor("w", {32, 2}, kQ8_0, 0, 68).build()));
  for (const uint64_t n : {31U, 33U}) {
    expect_refused(RawGguf().add_tensor("w", {n, 32}, kQ8_0, 0, 4096).build(),
                   {"tensor 'w'", std::to_string(n) + " elements", "multiple of 32", "Q8_0"});
  }
}

TEST(GgufReader, RefusesOffsetsThatAreNotAligned) {
  expect_refused(RawGguf().add_tensor("w", {1}, kF32, 16, 64).build(),
                 {"tensor 'w'", "offset is 16", "multiple of the alignment, 32"});
  RawGguf raw;
  raw.alignment = 16;
  raw.add("general.alignment", kUint32, Bytes().u32(16)).add_tensor("w", {1}, kF32, 16, 64);
  EXPECT_EQ(parse(raw.build())->tensors()[0].bytes.size(), 4U);
}

TEST(GgufReader, AcceptsDataThatEndsWithTheLastByteOfTheLastTensor) {
  const Parsed file = parse(RawGguf().add_tensor("w", {3}, kF32, 0, 12).build());
  EXPECT_EQ(file->tensors()[0].bytes.size(), 12U);
}

TEST(GgufReader, RejectsTensorSizePastEndOfFile) {
  expect_refused(RawGguf().add_tensor("w", {3}, kF32, 0, 11).build(),
                 {"tensor 'w'", "past the end of the file", "expected 12 bytes at offset 0", "found 11"});
}

TEST(GgufReader, RejectsTensorOffsetPastEndOfFile) {
  ASSERT_NO_THROW((void)parse(RawGguf().add_tensor("w", {8}, kF32, 32, 64).build()));
  for (const uint64_t offset : {uint64_t{64}, uint64_t{96}, uint64_t{1} << 63U, kMax64 - 31, kMax64 - 63}) {
    expect_refused(RawGguf().add_tensor("w", {8}, kF32, offset, 64).build(),
                   {"tensor 'w'", "past the end of the file", "offset " + std::to_string(offset), "found 64"});
  }
}

TEST(GgufReader, RejectsDataThatIsMissingAltogether) {
  RawGguf raw = RawGguf().add_tensor("weight", {8}, kF32, 0, 0);
  raw.alignment = 1;  // the file ends with the table, before the padding
  expect_refused(raw.build(), {"tensor 'weight'", "past the end of the file", "found 0 bytes"});
}

TEST(GgufReader, RefusesTensorsThatOverlap) {
  expect_refused(RawGguf().add_tensor("a", {16}, kF32, 0, 64).add_tensor("b", {8}, kF32, 32, 64).build(),
                 {"tensor 'b'", "overlaps tensor 'a'", "64", "found 32"});
  expect_refused(RawGguf().add_tensor("a", {8}, kF32, 0, 32).add_tensor("b", {8}, kF32, 0, 32).build(),
                 {"overlaps", "'a'", "'b'"});
  // One that lies inside a much longer one, and is not its neighbour in the table.
  expect_refused(RawGguf()
                     .add_tensor("long", {64}, kF32, 0, 256)
                     .add_tensor("after", {8}, kF32, 256, 32)
                     .add_tensor("inside", {8}, kF32, 128, 0)
                     .build(),
                 {"tensor 'inside'", "overlaps tensor 'long'"});
}

TEST(GgufReader, WarnsOfGaps) {
  const Parsed file = parse(RawGguf().add_tensor("a", {1}, kF32, 0, 64).add_tensor("b", {1}, kF32, 64, 4).build());
  ASSERT_EQ(file->warnings().size(), 1U);
  EXPECT_NE(file->warnings()[0].find("'b'"), std::string::npos) << file->warnings()[0];
  EXPECT_NE(file->warnings()[0].find("60 bytes"), std::string::npos) << file->warnings()[0];
}

TEST(GgufReader, WarnsOfDataInAnotherOrderThanTheTable) {
  const Parsed file = parse(RawGguf().add_tensor("a", {8}, kF32, 32, 32).add_tensor("b", {8}, kF32, 0, 32).build());
  ASSERT_EQ(file->warnings().size(), 1U);
  EXPECT_NE(file->warnings()[0].find("order"), std::string::npos);
  EXPECT_LT(file->find_tensor("b")->bytes.data(), file->find_tensor("a")->bytes.data());
}

TEST(GgufReader, AcceptsAFileWithoutTensors) {
  const Parsed file = parse(RawGguf().add("k", kUint32, Bytes().u32(1)).build());
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_EQ(parse(RawGguf().build())->metadata().size(), 0U);
}

// Typed access

TEST(GgufReader, TakesIntegersOfAnyWidth) {
  const Parsed file = parse(RawGguf()
                                .add("u8", 0, Bytes().u8(255))
                                .add("i16", 3, Bytes().number(int16_t{-2}))
                                .add("max", 10, Bytes().u64(kMax64 >> 1U))
                                .add("over", 10, Bytes().u64((kMax64 >> 1U) + 1))
                                .build());
  EXPECT_EQ(file->get_int("u8"), 255);
  EXPECT_EQ(file->get_int("i16"), -2);
  EXPECT_EQ(file->get_int("max"), std::numeric_limits<int64_t>::max());
  expect_error(ErrorCode::kFormat, {"t.gguf", "'over'", "below 2^63", "9223372036854775808"},
               [&] { (void)file->get_int("over"); });
}

TEST(GgufReader, RefusesValuesOfAnotherKind) {
  const Bytes bytes = RawGguf()
                          .add("int", kUint32, Bytes().u32(1))
                          .add("float", 6, Bytes().f32(1))
                          .add("text", kString, Bytes().str("x"))
                          .add("ints", kArray, Bytes().u32(5).u64(2).u32(1).u32(2))
                          .add("bools", kArray, Bytes().u32(7).u64(1).u8(1))
                          .build();
  const Parsed file = parse(bytes);
  const auto refuses = [&](std::initializer_list<std::string_view> words, auto&& f) {
    expect_error(ErrorCode::kFormat, words, f);
  };
  refuses({"'float'", "expected an integer", "found FLOAT32"}, [&] { (void)file->get_int("float"); });
  refuses({"'ints'", "expected an integer", "found ARRAY of 2 INT32"}, [&] { (void)file->get_int("ints"); });
  refuses({"'int'", "expected FLOAT32 or FLOAT64", "found UINT32"}, [&] { (void)file->get_float("int"); });
  refuses({"'int'", "expected BOOL", "found UINT32"}, [&] { (void)file->get_bool("int"); });
  refuses({"'int'", "expected STRING", "found UINT32"}, [&] { (void)file->get_string("int"); });
  refuses({"'text'", "expected an integer", "found STRING"}, [&] { (void)file->get_ints("text"); });
  refuses({"'bools'", "expected an integer", "found BOOL"}, [&] { (void)file->get_ints("bools"); });
  refuses({"'ints'", "expected FLOAT32 or FLOAT64", "found INT32"}, [&] { (void)file->get_floats("ints"); });
  refuses({"'ints'", "expected an ARRAY of STRING", "found ARRAY of 2 INT32"},
          [&] { (void)file->get_strings("ints"); });
  refuses({"'int'", "expected an ARRAY of STRING", "found UINT32"}, [&] { (void)file->get_strings("int"); });
}

TEST(GgufReader, TakesAScalarAsAListOfOne) {
  const Bytes bytes = RawGguf()
                          .add("int", kUint32, Bytes().u32(1))
                          .add("float", 6, Bytes().f32(2))
                          .add("text", kString, Bytes().str("x"))
                          .build();
  const Parsed file = parse(bytes);
  EXPECT_EQ(file->get_ints("int"), std::vector<int64_t>{1});
  EXPECT_EQ(file->get_floats("float"), std::vector<double>{2});
  EXPECT_EQ(file->get_strings("text"), std::vector<std::string_view>{"x"});
  EXPECT_EQ(file->get_ints("absent"), std::nullopt);
  EXPECT_EQ(file->get_floats("absent"), std::nullopt);
  EXPECT_EQ(file->get_strings("absent"), std::nullopt);
}

TEST(GgufReader, ReadsAVocabularyOfRealSizeQuickly) {
  constexpr uint64_t kTokens = 163'840;
  constexpr uint64_t kMerges = 163'328;
  Bytes tokens = Bytes().u32(kString).u64(kTokens);
  for (uint64_t i = 0; i < kTokens; ++i) tokens.str("token" + std::to_string(i));
  Bytes merges = Bytes().u32(kString).u64(kMerges);
  for (uint64_t i = 0; i < kMerges; ++i) merges.str("left" + std::to_string(i) + " right");
  const Bytes bytes = RawGguf().add("tokens", kArray, tokens).add("merges", kArray, merges).build();

  const auto start = std::chrono::steady_clock::now();
  const Parsed file = parse(bytes);
  const auto views = file->get_strings("merges");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(views->size(), kMerges);
  EXPECT_EQ(views->back(), "left163327 right");
  EXPECT_LT(seconds.count(), 2.0);  // takes milliseconds; the rest is room for sanitizers and busy machines
}

}  // namespace
}  // namespace kda
