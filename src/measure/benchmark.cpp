#include "measure/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "arch/model_config.h"
#include "base/error.h"
#include "base/xxhash64.h"
#include "engine/batch.h"
#include "engine/ngram_drafter.h"

namespace kda {

namespace {

using std::chrono::steady_clock;

constexpr uint64_t kSeed = 20251031;
constexpr int kReadPasses = 3;  // over memory, a repetition
constexpr size_t kEditEvery = 24;

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
  std::string name = fmt::format("{}{}", kind == Kind::kPrompt ? "pp" : is_edit() ? "ed" : "tg", n_tokens);
  if (n_sequences > 1) name += fmt::format("x{}", n_sequences);
  if (depth > 0) name += fmt::format("@d{}", depth);
  if (kind == Kind::kDraftedEdit) name += "-ngram";
  return name;
}

int64_t BenchTest::context() const noexcept { return depth + (is_edit() ? 2 : 1) * n_tokens; }

std::vector<double> BenchResult::rates() const {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(static_cast<double>(test.n_tokens * test.n_sequences) / s);
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

double Benchmark::run_side_by_side(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress) {
  const auto depth = static_cast<size_t>(test.depth);
  std::vector<Batch::Item> items = {{sequence_.get(), {}}};
  while (static_cast<int64_t>(items.size()) < test.n_sequences) {
    if (others_.size() < items.size()) others_.push_back(engine_.new_sequence(sequence_->context()));
    items.push_back({others_[items.size() - 1].get(), {}});
  }
  // Every sequence has its own tokens: those of the first, from other places on.
  const auto id_of = [&](size_t sequence, size_t i) { return &ids_[(i + sequence * 37) % ids_.size()]; };
  for (size_t s = 1; s < items.size(); ++s) {
    std::vector<int32_t> before;
    for (size_t i = 0; i < depth; ++i) before.push_back(*id_of(s, i));
    if (depth == 0) items[s].sequence->clear();
    (void)items[s].sequence->sync(before, {},
                                  progress ? [&](int64_t, int64_t) { return progress(0, 1); } : FeedProgress{});
  }
  Batch batch(engine_, test.n_sequences, test.n_sequences);
  XxHash64 hash;
  double seconds = 0;
  for (size_t i = 0; i < static_cast<size_t>(test.n_tokens); ++i) {
    for (size_t s = 0; s < items.size(); ++s) items[s].ids = {id_of(s, depth + i), 1};
    const auto begin = steady_clock::now();
    batch.feed(items);
    seconds += seconds_since(begin);
    for (const Batch::Item& item : items) {
      if (!item.error.empty()) fail(ErrorCode::kFormat, "{}", item.error);
      add_logits(item.sequence->logits(), test, hash);
    }
    if (progress && !progress(static_cast<int64_t>(i) + 1, test.n_tokens)) fail(ErrorCode::kInterrupted, "interrupted");
  }
  checksum = hash.digest();
  return seconds;
}

double Benchmark::run_edit(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress) {
  const auto n = static_cast<size_t>(test.n_tokens);
  const auto text = std::span(ids_).subspan(static_cast<size_t>(test.depth), n);
  sequence_->feed(text);
  const std::vector<int32_t> before(sequence_->tokens().begin(), sequence_->tokens().end());
  std::optional<DraftedFeed> drafted;
  if (test.kind == BenchTest::Kind::kDraftedEdit) drafted.emplace(*sequence_, before);
  XxHash64 hash;
  double seconds = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t id = i % kEditEvery == kEditEvery - 1 ? text[n - 1 - i] : text[i];
    const auto begin = steady_clock::now();
    if (drafted) {
      drafted->feed(id);
    } else {
      sequence_->feed({&id, 1});
    }
    seconds += seconds_since(begin);
    add_logits(sequence_->logits(), test, hash);
    if (progress && !progress(static_cast<int64_t>(i) + 1, test.n_tokens)) fail(ErrorCode::kInterrupted, "interrupted");
  }
  checksum = hash.digest();
  return seconds;
}

double Benchmark::run(const BenchTest& test, uint64_t& checksum, const FeedProgress& progress) {
  if (test.n_sequences > 1) return run_side_by_side(test, checksum, progress);
  if (test.is_edit()) return run_edit(test, checksum, progress);
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
  KDA_CHECK(test.n_tokens >= 1 && repetitions >= 1 && test.context() <= static_cast<int64_t>(ids_.size()));
  const bool generation = test.kind == BenchTest::Kind::kGeneration && test.n_sequences == 1;
  if (generation && !read_bandwidth_)
    read_bandwidth_ = std::make_unique<ReadBandwidth>(engine_.n_threads(), read_bytes_);
  const int64_t n_warm = warm_up ? 1 : 0;
  const int64_t total = test.depth + (n_warm + repetitions) * test.n_tokens;
  BenchResult result{
      .test = test,
      .macs = test.kind == BenchTest::Kind::kPrompt ? workload_.prompt_macs(test.depth, test.n_tokens) : 0,
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
