#include "formats/npy.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/formats/support.h"

namespace kda {
namespace {

using test::Bytes;
using test::expect_error;
using test::TemporaryFolder;

Bytes npy(std::string_view header, const Bytes& data, uint8_t major = 1) {
  Bytes out("\x93NUMPY");
  out.u8(major).u8(0);
  if (major == 1) {
    out.u16(static_cast<uint16_t>(header.size()));
  } else {
    out.u32(static_cast<uint32_t>(header.size()));
  }
  return out.raw(header).raw(data);
}

std::string header(std::string_view descr, std::string_view shape, std::string_view fortran = "False") {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + std::string(fortran) +
         ", 'shape': " + std::string(shape) + ", }      \n";
}

std::vector<int64_t> parse(const Bytes& bytes) { return parse_npy_ints(bytes.span(), "t.npy"); }

void expect_refused(const Bytes& bytes, std::initializer_list<std::string_view> words) {
  const std::vector<std::byte> exact(bytes.span().begin(), bytes.span().end());
  expect_error(ErrorCode::kFormat, words, [&] { (void)parse_npy_ints(exact, "t.npy"); });
}

TEST(Npy, ReadsEveryIntegerTypeAndVersion) {
  const std::vector<int64_t> expected = {1, 2, 65535};
  for (const uint8_t major : {uint8_t{1}, uint8_t{2}, uint8_t{3}}) {
    EXPECT_EQ(parse(npy(header("<i4", "(3,)"), Bytes().u32(1).u32(2).u32(65535), major)), expected);
    EXPECT_EQ(parse(npy(header("<u4", "(3,)"), Bytes().u32(1).u32(2).u32(65535), major)), expected);
    EXPECT_EQ(parse(npy(header("<i8", "(3,)"), Bytes().u64(1).u64(2).u64(65535), major)), expected);
    EXPECT_EQ(parse(npy(header("<u2", "(3,)"), Bytes().u16(1).u16(2).u16(65535), major)), expected);
  }
  EXPECT_EQ(parse(npy(header("<i4", "(1,)"), Bytes().u32(0xFFFFFFFFU))), std::vector<int64_t>{-1});
  EXPECT_EQ(parse(npy(header("<u4", "(1,)"), Bytes().u32(0xFFFFFFFFU))), std::vector<int64_t>{4294967295});
  EXPECT_EQ(parse(npy(header("<i8", "(0,)"), Bytes())), std::vector<int64_t>{});
}

TEST(Npy, AcceptsKeysInAnyOrderAndEitherQuote) {
  EXPECT_EQ(parse(npy(R"({"shape":(1,),"fortran_order":False,"descr":"<u2"})", Bytes().u16(7))),
            std::vector<int64_t>{7});
}

TEST(Npy, RefusesOtherTypesByName) {
  for (const char* descr : {"<f4", ">i4", "|u1", "<u8", "|O", ""}) {
    expect_refused(npy(header(descr, "(1,)"), Bytes().u64(0)),
                   {"t.npy", "type", "expected int32", std::string("found '") + descr});
  }
  expect_refused(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", Bytes().u32(0)),
                 {"header", "several fields"});
}

TEST(Npy, RefusesFortranOrder) {
  expect_refused(npy(header("<i4", "(1,)", "True"), Bytes().u32(0)), {"t.npy", "C order", "found Fortran order"});
}

TEST(Npy, RefusesOtherShapes) {
  expect_refused(npy(header("<i4", "(1, 1)"), Bytes().u32(0)), {"t.npy", "one dimension", "found 2"});
  expect_refused(npy(header("<i4", "()"), Bytes().u32(0)), {"t.npy", "one dimension", "found 0"});
}

TEST(Npy, RefusesDataOfAnotherLength) {
  expect_refused(npy(header("<i4", "(2,)"), Bytes().u32(0)), {"data", "2 elements of 4 bytes", "found 4", "cut off"});
  expect_refused(npy(header("<i4", "(1,)"), Bytes().u64(0)), {"data", "1 elements of 4 bytes", "found 8"});
  expect_refused(npy(header("<i8", "(2305843009213693952,)"), Bytes()), {"data", "found 0", "cut off"});
  expect_refused(npy(header("<i8", "(9223372036854775807,)"), Bytes()), {"data", "found 0", "cut off"});
  expect_refused(npy(header("<i8", "(9223372036854775808,)"), Bytes()), {"header", "below 2^63"});
}

TEST(Npy, RefusesEveryTruncation) {
  for (const uint8_t major : {uint8_t{1}, uint8_t{2}}) {
    const std::string whole = npy(header("<i4", "(1,)"), Bytes().u32(5), major).text();
    for (size_t n = 0; n < whole.size(); ++n) expect_refused(Bytes(whole.substr(0, n)), {"t.npy", "expected"});
  }
}

TEST(Npy, RefusesOtherVersionsAndFiles) {
  expect_refused(npy(header("<i4", "(1,)"), Bytes().u32(5), 4), {"version", "found 4"});
  expect_refused(npy(header("<i4", "(1,)"), Bytes().u32(5), 0), {"version", "found 0"});
  expect_refused(Bytes("GGUF"), {"NumPy", "a GGUF file"});
  expect_refused(Bytes("1 2 3"), {"NumPy", "another kind"});
}

TEST(Npy, RefusesBrokenHeaders) {
  for (const char* text :
       {"", "{", "[]", "{}", "{'descr'}", "{'descr': '<i4'}", "{'descr': '<i4", "{'descr': '<i4', 'descr': '<i4'}",
        "{'shape': (1,), 'fortran_order': 0, 'descr': '<i4'}",
        "{'shape': (-1,), 'fortran_order': False, 'descr': '<i4'}",
        "{'shape': 1, 'fortran_order': False, 'descr': '<i4'}", "{'shape': (1, 'fortran_order': False, 'descr': '<i4'}",
        "{'shape': (1,), 'fortran_order': False, 'descr': '<i4', 'x': '1'}",
        "{'shape': (1,), 'fortran_order': False, 'descr': '<i4'} x"}) {
    expect_refused(npy(text, Bytes().u32(5)), {"t.npy", "header", "expected"});
  }
}

TEST(Npy, WritesFloatsAsNumPyDoes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  const float values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  write_npy_floats(path, values, shape);
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  ASSERT_EQ(text.size(), 128U + 24U);  // a header of two times 64 bytes
  Bytes expected("\x93NUMPY");
  expected.u8(1).u8(0).u16(118);
  EXPECT_EQ(text.substr(0, 10), expected.text());
  EXPECT_TRUE(text.substr(10).starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }"));
  EXPECT_EQ(text[127], '\n');
  EXPECT_EQ(text.substr(128), test::as_text(std::as_bytes(std::span(values))));
  expect_error(ErrorCode::kFormat, {"found '<f4'"}, [&] { (void)read_npy_ints(path); });
}

TEST(Npy, RefusesToWriteAShapeThatDoesNotFit) {
  const TemporaryFolder folder;
  const float values[] = {1, 2};
  const int64_t three[] = {3};
  const int64_t negative[] = {-2, -1};
  expect_error(ErrorCode::kUsage, {"product of 2", "found 3"},
               [&] { write_npy_floats(folder.path() / "a.npy", values, three); });
  expect_error(ErrorCode::kUsage, {"0 or more", "found -2"},
               [&] { write_npy_floats(folder.path() / "a.npy", values, negative); });
}

TEST(Npy, ReadsFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_npy_ints(folder.write("a.npy", npy(header("<u2", "(1,)"), Bytes().u16(7)).text())),
            std::vector<int64_t>{7});
  expect_error(ErrorCode::kNotFound, {"absent.npy"}, [&] { (void)read_npy_ints(folder.path() / "absent.npy"); });
}

}  // namespace
}  // namespace kda
