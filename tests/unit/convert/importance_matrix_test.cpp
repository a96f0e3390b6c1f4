#include "convert/importance_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "formats/gguf.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace kda {
namespace {

using test::expect_error;

class Dat {
 public:
  Dat& i32(int32_t n) { return raw({reinterpret_cast<const char*>(&n), sizeof n}); }
  Dat& f32(float x) { return raw({reinterpret_cast<const char*>(&x), sizeof x}); }
  Dat& text(std::string_view t) { return i32(static_cast<int32_t>(t.size())).raw(t); }
  Dat& raw(std::string_view t) {
    bytes_ += t;
    return *this;
  }
  [[nodiscard]] ImportanceMatrix parse() const {
    return ImportanceMatrix::parse(std::as_bytes(std::span(bytes_)), "m");
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::vector<float> copy(std::span<const float> x) { return {x.begin(), x.end()}; }

ImportanceMatrix parse(const GgufWriter& writer) { return ImportanceMatrix::parse(writer.finish(), "m"); }

void add(GgufWriter& writer, const std::string& name, const std::vector<float>& values, std::vector<int64_t> ne) {
  writer.add_tensor(name, TensorType::kF32, ne, std::as_bytes(std::span(values)));
}

TEST(ImportanceMatrix, WhatIsWrittenIsReadBack) {
  ImportanceMatrix m;
  m.set("blk.0.attn_q.weight", 3, std::vector<double>{8, 0, 2}, std::vector<int64_t>{4});
  m.set("blk.1.ffn_up_exps.weight", 2, std::vector<double>{1, 2, 0, 0, 9, 3}, std::vector<int64_t>{1, 0, 3});
  m.datasets = {"a.txt", "b.txt"};
  m.n_chunks = 7;
  m.chunk_tokens = 512;
  const test::TempFolder folder;
  const auto path = folder.path() / "m.gguf";
  m.write(path);
  const ImportanceMatrix back = ImportanceMatrix::read(path);
  EXPECT_EQ(back.datasets, m.datasets);
  EXPECT_EQ(back.n_chunks, 7);
  EXPECT_EQ(back.chunk_tokens, 512);
  EXPECT_EQ(back.n_tensors(), 2U);
  EXPECT_EQ(copy(back.of("blk.0.attn_q.weight", 0, 3)), (std::vector<float>{2, 0, 0.5F}));
  EXPECT_EQ(copy(back.of("blk.1.ffn_up_exps.weight", 0, 2)), (std::vector<float>{1, 2}));
  EXPECT_EQ(copy(back.of("blk.1.ffn_up_exps.weight", 1, 2)), (std::vector<float>{1, 1})) << "no data counts as 1";
  EXPECT_EQ(copy(back.of("blk.1.ffn_up_exps.weight", 2, 2)), (std::vector<float>{3, 1}));
  EXPECT_TRUE(back.of("blk.1.attn_q.weight", 0, 3).empty());
  const auto gaps = back.gaps();
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].tensor, "blk.1.ffn_up_exps.weight");
  EXPECT_EQ(gaps[0].matrices, std::vector<int64_t>{1});
  EXPECT_EQ(gaps[0].n_matrices, 3);
}

TEST(ImportanceMatrix, TheFileHasTheFormThatOthersRead) {
  ImportanceMatrix m;
  m.set("x.weight", 2, std::vector<double>{1, 2, 0, 0, 9, 3}, std::vector<int64_t>{1, 0, 3});
  m.n_chunks = 5;
  m.chunk_tokens = 64;
  m.datasets = {"t"};
  const test::TempFolder folder;
  m.write(folder.path() / "m.gguf");
  const GgufModel file = GgufModel::open(folder.path() / "m.gguf");
  EXPECT_EQ(file.main().get_string("general.type"), "imatrix");
  EXPECT_EQ(file.main().get_int("imatrix.chunk_count"), 5);
  EXPECT_EQ(file.main().get_int("imatrix.chunk_size"), 64);
  EXPECT_EQ(file.main().get_strings("imatrix.datasets"), std::vector<std::string_view>{"t"});
  const GgufTensor* sums = file.find_tensor("x.weight.in_sum2");
  const GgufTensor* counts = file.find_tensor("x.weight.counts");
  ASSERT_TRUE(sums != nullptr && counts != nullptr);
  EXPECT_EQ(std::vector(sums->ne, sums->ne + 2), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::vector(counts->ne, counts->ne + 2), (std::vector<int64_t>{1, 3}));
  float values[6];
  std::memcpy(values, sums->bytes.data(), sizeof values);
  EXPECT_EQ(std::vector(values, values + 6), (std::vector<float>{1, 2, 0, 0, 9, 3})) << "sums, not means";
}

TEST(ImportanceMatrix, TheOlderFormHoldsMeansTimesChunks) {
  Dat dat;
  dat.i32(2);
  dat.text("a.weight").i32(4).i32(3).f32(4).f32(8).f32(2);
  dat.text("b_exps.weight").i32(2).i32(4).f32(2).f32(4).f32(6).f32(0);
  const ImportanceMatrix old = dat.parse();  // the end may lack, as in the first files
  EXPECT_EQ(copy(old.of("a.weight", 0, 3)), (std::vector<float>{1, 2, 0.5F}));
  EXPECT_EQ(copy(old.of("b_exps.weight", 1, 2)), (std::vector<float>{3, 0})) << "cut by the width that is asked for";
  const ImportanceMatrix whole = dat.i32(9).text("text.txt").parse();
  EXPECT_EQ(whole.n_chunks, 9);
  EXPECT_EQ(whole.datasets, std::vector<std::string>{"text.txt"});
}

TEST(ImportanceMatrix, EveryCutOfAFileIsRefusedOrRead) {
  const std::string all =
      Dat().i32(2).text("a").i32(1).i32(2).f32(1).f32(1).text("b").i32(1).i32(1).f32(1).i32(1).text("t").bytes();
  for (size_t n = 0; n < all.size(); ++n) {
    try {
      const auto m = ImportanceMatrix::parse(std::as_bytes(std::span(all).first(n)), "m");
      EXPECT_EQ(m.n_tensors(), 2U) << n;
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(ErrorCode::kFormat));
    }
  }
}

TEST(ImportanceMatrix, DamageIsNamed) {
  const auto bad = [](const std::string& part, const Dat& dat) {
    expect_error(ErrorCode::kFormat, part, [&] { (void)dat.parse(); });
  };
  bad("m: no importance matrix: the number of entries is 1701667182", Dat().raw("name of a text file, say"));
  bad("the number of entries is -1", Dat().i32(-1).raw("0123456789abcdef"));
  bad("a tensor's name is 2147483647", Dat().i32(1).i32(0x7FFFFFFF).i32(1).i32(1).f32(1));
  bad("the values of an entry is 1073741824", Dat().i32(1).text("a").i32(1).i32(1 << 30).f32(1));
  bad("a name of its own", Dat().i32(2).text("a").i32(1).i32(1).f32(1).text("a").i32(1).i32(1).f32(1));
  bad("value 0 is -1", Dat().i32(1).text("a").i32(1).i32(1).f32(-1));
  bad("holds no importance", Dat().i32(0));

  const auto gguf = [](const std::string& part, auto&& fill) {
    GgufWriter writer;
    fill(writer);
    expect_error(ErrorCode::kFormat, part, [&] { (void)parse(writer); });
  };
  static const std::vector<float> four = {1, 2, 3, 4};
  static const std::vector<float> nan = {1, 2, std::numeric_limits<float>::quiet_NaN(), 4};
  static const std::vector<float> minus = {-1};
  static const std::vector<float> one = {1};
  static const std::vector<float> three = {1, 1, 1};
  gguf("expected 'imatrix'", [](GgufWriter& w) { w.add_string("general.type", "model"); });
  gguf("has no a.counts", [](GgufWriter& w) { add(w, "a.in_sum2", four, {4, 1}); });
  gguf("4 sums for 3 counts", [](GgufWriter& w) {
    add(w, "a.in_sum2", four, {4, 1});
    add(w, "a.counts", three, {1, 3});
  });
  gguf("sum 2 is nan", [](GgufWriter& w) {
    add(w, "a.in_sum2", nan, {4, 1});
    add(w, "a.counts", one, {1, 1});
  });
  gguf("count 0 is -1", [](GgufWriter& w) {
    add(w, "a.in_sum2", four, {4, 1});
    add(w, "a.counts", minus, {1, 1});
  });
  gguf("type is F16", [](GgufWriter& w) {
    w.add_tensor("a.in_sum2", TensorType::kF16, std::vector<int64_t>{2, 1}, std::as_bytes(std::span(one)));
    add(w, "a.counts", one, {1, 1});
  });
}

TEST(ImportanceMatrix, AnotherWidthOrTooFewMatricesAreRefused) {
  ImportanceMatrix m;
  m.set("x.weight", 2, std::vector<double>{1, 2, 3, 4}, std::vector<int64_t>{1, 1});
  expect_error(ErrorCode::kFormat, "expected matrix 0 with 3 columns", [&] { (void)m.of("x.weight", 0, 3); });
  expect_error(ErrorCode::kFormat, "expected matrix 0 with 4 columns", [&] { (void)m.of("x.weight", 0, 4); });
  expect_error(ErrorCode::kFormat, "expected matrix 2 with 2 columns", [&] { (void)m.of("x.weight", 2, 2); });
  expect_error(ErrorCode::kFormat, "expected matrix 0 with 0 columns", [&] { (void)m.of("x.weight", 0, 0); });
  expect_error(ErrorCode::kUsage, "3 sums for 2 matrices", [&] {
    m.set("y", 2, std::vector<double>{1, 2, 3}, std::vector<int64_t>{1, 1});
  });
  expect_error(ErrorCode::kUsage, "sum 1 over 1 rows is inf", [&] {
    m.set("y", 2, std::vector<double>{1, std::numeric_limits<double>::infinity()}, std::vector<int64_t>{1});
  });
  EXPECT_EQ(m.n_tensors(), 1U);
}

TEST(ImportanceMatrix, SeedsOfTheFuzzTargetAreReadOrRefused) {
  int n_read = 0;
  int n_refused = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(KDA_SOURCE_DIR) / "fuzz" / "corpus" / "imatrix")) {
    try {
      (void)ImportanceMatrix::read(entry.path());
      ++n_read;
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(ErrorCode::kFormat)) << e.what();
      ++n_refused;
    }
  }
  EXPECT_EQ(n_read, 2);
  EXPECT_EQ(n_refused, 2);
}

}  // namespace
}  // namespace kda
