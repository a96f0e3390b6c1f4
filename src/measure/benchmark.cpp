#include "measure/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <utility>

#include "arch/model_config.h"
#include "base/error.h"
#include "base/xxhash64.h"

namespace kda {

namespace {

using std::chrono::steady_clock;

constexpr uint64_t kSeed = 20251031;
constexpr int kReadPasses = 3;  // over memory, a repetition

/// n ids of the vocabulary, all alike in probability. mt19937_64 and the remainder are the same everywhere.
std::vector<int32_t> random_ids(int64_t n, int64_t vocab) {
  std::mt19937_64 draw(kSeed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = static_cast<int32_t>(draw() % static_cast<uint64_t>(vocab));
  return ids;
}

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

/// Progress of a part that begins after `before` of `total` tokens.
FeedProgress part_of(const FeedProgress& progress, int64_t before, int64_t total) {
  if (!progress) return {};
  return [&progress, before, total](int64_t done, int64_t) { return progress(before + done, total); };
}

void add_logits(std::span<const float> logits, const BenchTest& test, XxHash64& hash) {
  if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) {
    fail(ErrorCode::kFormat, "{}: the model yields logits that are not finite", test.name());
  }
  hash.update(std::as_bytes(logits));
}

}  // namespace

std::string BenchTest::name() const {
  const std::string name = fmt::format("{}{}", kind == Kind::kPrompt ? "pp" : "tg", n_tokens);
  return depth == 0 ? name : fmt::format("{}@d{}", name, depth);
}

std::vector<double> BenchResult::rates() const {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(static_cast<double>(test.n_tokens) / s);
  return rates;
}

double BenchResult::byte_rate() const { return static_cast<double>(bytes) / median(seconds); }
double BenchResult::mac_rate() const { return static_cast<double>(macs) / median(seconds); }

double median(std::vector<double> values) {
  KDA_CHECK(!values.empty());
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Benchmark::Benchmark(const Engine& engine, int64_t context, int64_t read_bytes)
    : engine_(engine),
      read_bytes_(read_bytes),
      workload_(engine.config(), engine.checkpoint().weights()),
      sequence_(engine.new_sequence(context)),
      ids_(random_ids(context, engine.config().vocab_size)) {}

void Benchmark::go_to(int64_t depth, const FeedProgress& progress) {
  const bool back = depth == std::exchange(depth_, 0);
  if (depth == 0) {
    sequence_->clear();
  } else {
    const int64_t kept = sequence_->sync(std::span(ids_).first(static_cast<size_t>(depth)), {}, progress);
    KDA_CHECK(!back || kept == depth);  // sync left a snapshot at its end
  }
  depth_ = depth;
}

double Benchmark::run(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress) {
  const auto ids = std::span(ids_).subspan(static_cast<size_t>(test.depth), static_cast<size_t>(test.n_tokens));
  XxHash64 hash;
  double seconds = 0;
  // A generation feeds tokens one by one; which ones makes no difference to the time. Hashing does not count.
  const size_t step = test.kind == BenchTest::Kind::kPrompt ? ids.size() : 1;
  for (size_t done = 0; done < ids.size(); done += step) {
    const auto part_progress = part_of(progress, static_cast<int64_t>(done), test.n_tokens);
    const auto begin = steady_clock::now();
    sequence_->feed(ids.subspan(done, step), part_progress);
    seconds += seconds_since(begin);
    add_logits(sequence_->logits(), test, hash);
  }
  checksum = hash.digest();
  return seconds;
}

BenchResult Benchmark::measure(const BenchTest& test, int64_t repetitions, bool warm_up, const FeedProgress& progress) {
  KDA_CHECK(test.n_tokens >= 1 && repetitions >= 1 && test.depth + test.n_tokens <= static_cast<int64_t>(ids_.size()));
  const bool generation = test.kind == BenchTest::Kind::kGeneration;
  if (generation && !read_bandwidth_)
    read_bandwidth_ = std::make_unique<ReadBandwidth>(engine_.n_threads(), read_bytes_);
  const int64_t n_warm = warm_up ? 1 : 0;
  const int64_t total = test.depth + (n_warm + repetitions) * test.n_tokens;
  BenchResult result{.test = test,
                     .macs = generation ? 0 : workload_.prompt_macs(test.depth, test.n_tokens),
                     .bytes = generation ? workload_.generation_bytes(test.depth, test.n_tokens) : 0};
  // First to where the last test began: what it added must not change how this depth is cut into batches.
  go_to(depth_);
  for (int64_t i = 0; i < n_warm + repetitions; ++i) {
    go_to(test.depth, i == 0 ? part_of(progress, 0, total) : FeedProgress{});
    for (int pass = 0; generation && pass < kReadPasses; ++pass) {
      result.read_rate = std::max(result.read_rate, read_bandwidth_->measure());
    }
    uint64_t checksum = 0;
    const double seconds = run(test, checksum, part_of(progress, test.depth + i * test.n_tokens, total));
    if (i > 0 && checksum != result.logits_checksum) {
      fail(ErrorCode::kFormat,
           "{}: the logits of repetition {} are not those of the first, expected {:016x}, found "
           "{:016x}; the file may have changed, or the machine computes wrongly",
           test.name(), i, result.logits_checksum, checksum);
    }
    result.logits_checksum = checksum;
    if (i >= n_warm) result.seconds.push_back(seconds);
  }
  return result;
}

}  // namespace kda
