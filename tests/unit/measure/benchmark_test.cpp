#include "measure/benchmark.h"

#include <gtest/gtest.h>

#include "arch/model_config.h"
#include "base/error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace kda {
namespace {

constexpr auto kPrompt = BenchTest::Kind::kPrompt;
constexpr int64_t kReadBytes = 1 << 20;  // quick; the rates are not looked at
constexpr auto kGeneration = BenchTest::Kind::kGeneration;

std::string no_environment(const char*) { return {}; }

class BenchmarkTest : public testing::Test {
 protected:
  BenchmarkTest() { file_ = test::TinyModel({.mla_layers = {1, 3}}).write_gguf(folder_.path()); }
  [[nodiscard]] std::unique_ptr<Engine> open(int threads = 2, int64_t batch = 16) const {
    return Engine::open(file_.string(), {.threads = threads, .batch_tokens = batch}, no_environment);
  }
  test::TempFolder folder_;
  std::filesystem::path file_;
};

TEST_F(BenchmarkTest, ResultsHoldWhatWasMeasured) {
  const auto engine = open();
  Benchmark benchmark(*engine, 64, kReadBytes);
  const BenchResult prompt = benchmark.measure({kPrompt, 40, 0}, 3, true);
  EXPECT_EQ(prompt.test.name(), "pp40");
  EXPECT_EQ(prompt.seconds.size(), 3U);
  EXPECT_EQ(prompt.rates().size(), 3U);
  EXPECT_GT(prompt.mac_rate(), 0);
  const Workload workload(engine->config(), engine->checkpoint().weights());
  EXPECT_EQ(prompt.macs, workload.prompt_macs(0, 40));
  const BenchResult generation = benchmark.measure({kGeneration, 4, 30}, 2, false);
  EXPECT_EQ(generation.test.name(), "tg4@d30");
  EXPECT_EQ(generation.seconds.size(), 2U);
  EXPECT_EQ(generation.bytes, workload.generation_bytes(30, 4));
  EXPECT_GT(generation.byte_rate(), 0);
  EXPECT_GT(generation.read_rate, 0);
}

TEST_F(BenchmarkTest, LogitsDoNotDependOnThreadsBatchesOrTheOrderOfTests) {
  const auto engine = open();
  Benchmark benchmark(*engine, 64, kReadBytes);
  const BenchResult first = benchmark.measure({kPrompt, 10, 0}, 1, false);
  const BenchResult deep = benchmark.measure({kPrompt, 10, 40}, 2, true);
  const BenchResult generated = benchmark.measure({kGeneration, 5, 40}, 2, true);
  EXPECT_NE(first.logits_checksum, deep.logits_checksum);
  const auto other = open(1, 7);
  Benchmark again(*other, 50, kReadBytes);
  EXPECT_EQ(again.measure({kGeneration, 5, 40}, 1, false).logits_checksum, generated.logits_checksum);
  EXPECT_EQ(again.measure({kPrompt, 10, 40}, 1, false).logits_checksum, deep.logits_checksum);
  EXPECT_EQ(again.measure({kPrompt, 10, 0}, 1, false).logits_checksum, first.logits_checksum);
}

TEST_F(BenchmarkTest, TheChecksumIsThatOfTheLogitsBehindTheDepth) {
  const auto engine = open();
  Benchmark benchmark(*engine, 50, kReadBytes);
  // A prompt of one token and a generation of one token are the same.
  EXPECT_EQ(benchmark.measure({kPrompt, 1, 12}, 1, false).logits_checksum,
            benchmark.measure({kGeneration, 1, 12}, 1, false).logits_checksum);
  // So are a prompt of 12, and one of 2 behind 10.
  EXPECT_EQ(benchmark.measure({kPrompt, 12, 0}, 1, false).logits_checksum,
            benchmark.measure({kPrompt, 2, 10}, 1, false).logits_checksum);
}

TEST_F(BenchmarkTest, ADepthIsComputedOnce) {
  const auto engine = open();
  Benchmark benchmark(*engine, 64, kReadBytes);
  int64_t last = 0;
  const auto progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 40 + 4 * 5);
    EXPECT_GE(done, last);
    last = done;
    return true;
  };
  (void)benchmark.measure({kPrompt, 5, 40}, 3, true, progress);
  EXPECT_EQ(last, 60);
}

TEST_F(BenchmarkTest, StopsWhenProgressSaysSo) {
  const auto engine = open();
  Benchmark benchmark(*engine, 64, kReadBytes);
  const auto until_20 = [](int64_t done, int64_t) { return done < 20; };
  test::expect_error(ErrorCode::kInterrupted, "stopped", [&] {
    (void)benchmark.measure({kPrompt, 40, 0}, 3, true, until_20);
  });
  EXPECT_EQ(benchmark.measure({kPrompt, 4, 0}, 1, true).seconds.size(), 1U);
}

TEST_F(BenchmarkTest, RefusesAModelThatYieldsNumbersThatAreNotFinite) {
  test::TinyModel model;
  for (float& x : model.tensors.at("model.norm.weight").values) x = 0x1p100F;
  for (float& x : model.tensors.at("lm_head.weight").values) x = 0x1p100F;
  const auto engine = Engine::open(model.write_gguf(folder_.path()).string(), {.threads = 1}, no_environment);
  Benchmark benchmark(*engine, 8, kReadBytes);
  test::expect_error(ErrorCode::kFormat, "not finite", [&] { (void)benchmark.measure({kPrompt, 4, 0}, 1, false); });
}

TEST(Median, IsTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
}

TEST(ReadBandwidth, ReadsAllItsMemory) {
  ReadBandwidth bandwidth(3, 10'000'000);
  EXPECT_GT(bandwidth.size_bytes(), 9'900'000);
  const double rate = bandwidth.measure();
  EXPECT_GT(rate, 1e7);  // a tenth of what the slowest computers of this century do
  EXPECT_LT(rate, 1e14);
}

}  // namespace
}  // namespace kda
