// One timeline of tokens: batches, snapshots, and the way back after a failure.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/sequence_impl.h"

namespace kda {

namespace {

constexpr int64_t kMaxSnapshots = 16;
constexpr int64_t kMaxSnapshotBytes = int64_t{1} << 30;
// A snapshot every so many tokens of a long prompt, beside those that the caller asks for: copying the state takes a
// small part of the time of the tokens between.
constexpr int64_t kSnapshotTokens = 1024;
// Rows of logits at a time when all are wanted: 10 MiB with a vocabulary of 163,840.
constexpr int64_t kLogitRows = 16;

size_t snapshot_count(const ModelConfig& config) {
  const int64_t bytes = SequenceState::recurrent_bytes(config) + config.vocab_size * int64_t{sizeof(float)};
  return static_cast<size_t>(std::clamp<int64_t>(kMaxSnapshotBytes / bytes, 1, kMaxSnapshots));
}

}  // namespace

Sequence::Impl::Impl(const Engine::Impl& owner, int64_t context, const MemoryPlan& memory_plan, bool own_passes)
    : engine(owner),
      plan(memory_plan),
      memory(static_cast<size_t>(plan.scratch)),
      arena({memory.data(), memory.size_bytes()}),
      run_memory(own_passes ? new RunMemory(owner.lay_out(context, arena)) : nullptr),
      logits(take_matrix(arena, 1, owner.config().vocab_size)),
      state(owner.config(), context, own_passes ? owner.max_tentative() : 0),
      snapshots(own_passes ? snapshot_count(owner.config()) : 0) {}

void Sequence::Impl::check_passes() const {
  if (!run_memory) fail(ErrorCode::kUsage, "sequence: it was made to be fed by Batch only; use Engine::new_sequence()");
}

void Sequence::Impl::check(std::span<const int32_t> ids, int64_t size) const {
  const auto n = static_cast<int64_t>(ids.size());
  if (n > state.context() - size) {
    fail(ErrorCode::kLimit, "context: {} of {} tokens are in use, {} more do not fit; ask for a longer context", size,
         state.context(), n);
  }
  const int64_t vocab = engine.config().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      fail(ErrorCode::kUsage, "token {} of the input is {}, expected 0 to {}", i, ids[i], vocab - 1);
    }
  }
}

void Sequence::Impl::run_batch(std::span<const int32_t> ids, bool want_logits, const EachLogits& each,
                               int64_t n_without, TensorSink* sink, const EachLayer& each_layer) {
  const int64_t before = state.size();
  const auto n = static_cast<int64_t>(ids.size());
  RunMemory& run = *run_memory;
  engine.pool.set_n_threads(engine.n_threads(n));
  recurrent_undefined = true;  // until the batch is through
  try {
    const Segment segment = {.state = &state, .ids = ids};
    engine.model.forward(run.ops, run.workspace, {&segment, 1}, sink, each_layer);
    const MatView fresh = run.fresh_logits.first_rows(want_logits ? 1 : 0);
    if (want_logits) engine.model.logits(run.ops, run.workspace, n - 1, fresh, each ? nullptr : sink);
    check_finite(fresh, before, n);
  } catch (...) {
    state.truncate(before);
    throw;
  }
  recurrent_undefined = false;
  if (want_logits) set_logits(run.fresh_logits);
  if (!each) return;
  const int64_t vocab = engine.config().vocab_size;
  std::vector<float> values(static_cast<size_t>(std::min(n, kLogitRows) * vocab));
  for (int64_t begin = n_without; begin < n; begin += kLogitRows) {
    const int64_t rows = std::min(kLogitRows, n - begin);
    const MatView some = {values.data(), rows, vocab, vocab};
    engine.model.logits(run.ops, run.workspace, begin, some, sink);
    for (int64_t i = 0; i < rows; ++i) each(before + begin + i, {some.row(i), static_cast<size_t>(vocab)});
  }
}

std::string not_finite_text(int64_t first, int64_t n) {
  return fmt::format(
      "model: tokens {} to {} yield numbers that are not finite; the weights or the file are damaged: run `kda inspect "
      "--check` on the model",
      first, first + n - 1);
}

void Sequence::Impl::check_finite(const MatView& fresh, int64_t first, int64_t n) {
  if (run_memory->ops.all_finite(run_memory->workspace.x.first_rows(n)) && run_memory->ops.all_finite(fresh)) return;
  fail(ErrorCode::kFormat, "{}", not_finite_text(first, n));
}

void Sequence::Impl::set_logits(const MatView& fresh) noexcept {
  std::copy_n(fresh.data, logits.cols, logits.data);
  logits_position = state.size();
}

void Sequence::Impl::run_tentative(std::span<const int32_t> ids) {
  const int64_t before = state.size();
  const auto n = static_cast<int64_t>(ids.size());
  RunMemory& run = *run_memory;
  engine.pool.set_n_threads(engine.n_threads(n));
  recurrent_undefined = true;  // until the batch is through
  try {
    const Segment segment = {.state = &state, .ids = ids, .tentative = true};
    engine.model.forward(run.ops, run.workspace, {&segment, 1}, nullptr);
    const MatView fresh = run.fresh_logits.first_rows(n);
    engine.model.logits(run.ops, run.workspace, 0, fresh, nullptr);
    check_finite(fresh, before, n);
  } catch (...) {
    state.truncate(before);
    throw;
  }
  recurrent_undefined = false;
  guess_row = 0;
  set_logits(run.fresh_logits);
}

void Sequence::Impl::run(std::span<const int32_t> ids, std::span<const int64_t> cuts, const FeedProgress& progress) {
  const auto total = static_cast<int64_t>(ids.size());
  const int64_t start = state.size();
  const int64_t batch = run_memory->workspace.max_tokens;
  const auto report = [&](int64_t done) {
    if (progress && !progress(done, total)) {
      fail(ErrorCode::kInterrupted, "stopped after {} of {} tokens", state.size() - start, total);
    }
  };
  for (int64_t done = 0; done < total;) {
    report(done);
    int64_t n = std::min(batch, total - done);
    const auto cut = std::ranges::upper_bound(cuts, start + done);
    if (cut != cuts.end()) n = std::min(n, *cut - start - done);
    // A batch of a large model takes tens of seconds: a layer's share of it counts as that share of its tokens.
    EachLayer each_layer;
    if (progress && n > 1) {
      each_layer = [&](int64_t layers) { report(done + n * layers / engine.config().n_layers()); };
    }
    run_batch(ids.subspan(static_cast<size_t>(done), static_cast<size_t>(n)), done + n == total, {}, 0, nullptr,
              each_layer);
    done += n;
    if (cut != cuts.end() && *cut == start + done) keep_snapshot();
  }
  if (progress) (void)progress(total, total);
}

void Sequence::Impl::restore(const Snapshot* snapshot) {
  if (snapshot == nullptr) {
    state.clear();
    logits_position = 0;
  } else {
    snapshot->restore(state);
    logits_position = snapshot->logits().empty() ? 0 : snapshot->position();
    std::ranges::copy(snapshot->logits(), logits.data);
  }
  recurrent_undefined = false;
}

void Sequence::Impl::recover() {
  if (!recurrent_undefined) return;
  const std::vector<int32_t> tokens(state.tokens().begin(), state.tokens().end());
  restore(snapshots.find(state.size(), false));
  run(std::span(tokens).subspan(static_cast<size_t>(state.size())), {}, {});
}

void Sequence::Impl::keep_snapshot() {
  engine.model.settle(run_memory->ops, state);
  const bool has_logits = logits_position == state.size();
  snapshots.add(state, has_logits ? logits_span() : std::span<const float>());
}

Sequence::Sequence() = default;
Sequence::~Sequence() = default;

void Sequence::feed(std::span<const int32_t> ids, const FeedProgress& progress) {
  impl_->check_passes();
  impl_->check(ids, size());
  impl_->engine.checkpoint->check_unchanged();
  impl_->recover();
  impl_->run(ids, {}, progress);
}

void Sequence::feed_guessing(int32_t id, std::span<const int32_t> guesses) {
  Impl& impl = *impl_;
  const int64_t room = std::min(max_guesses(), context() - size() - 1);
  const auto n =
      static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(guesses.size()), 0, std::max<int64_t>(room, 0)));
  if (n == 0) return feed({&id, 1});
  std::array<int32_t, kMaxGuesses + 1> ids = {id};
  std::ranges::copy(guesses.first(n), ids.begin() + 1);
  const std::span<const int32_t> batch = std::span(ids).first(n + 1);
  impl.check(batch, size());
  impl.engine.checkpoint->check_unchanged();
  impl.recover();
  impl.run_tentative(batch);
}

bool Sequence::feed_guessed(int32_t id) noexcept {
  const std::span<const int32_t> left = impl_->state.tentative();
  if (left.empty() || left.front() != id) return false;
  impl_->state.confirm();
  impl_->set_logits(impl_->run_memory->fresh_logits.rows_from(++impl_->guess_row, 1));
  return true;
}

void Sequence::feed_all_logits(std::span<const int32_t> ids,
                               const std::function<void(int64_t, std::span<const float>)>& each, TensorSink* sink,
                               const FeedProgress& progress, int64_t n_without) {
  impl_->check_passes();
  impl_->check(ids, size());
  impl_->engine.checkpoint->check_unchanged();
  impl_->recover();
  const auto batch = static_cast<size_t>(impl_->run_memory->workspace.max_tokens);
  for (size_t done = 0; done < ids.size(); done += batch) {
    Impl::EachLayer each_layer;
    if (progress) {
      each_layer = [&](int64_t) {
        if (!progress(static_cast<int64_t>(done), static_cast<int64_t>(ids.size()))) {
          fail(ErrorCode::kInterrupted, "stopped after {} of {} tokens", done, ids.size());
        }
      };
    }
    const auto part = ids.subspan(done, std::min(batch, ids.size() - done));
    impl_->run_batch(part, true, each, std::max<int64_t>(0, n_without - static_cast<int64_t>(done)), sink, each_layer);
  }
}

int64_t Sequence::sync(std::span<const int32_t> ids, std::span<const int64_t> borders, const FeedProgress& progress) {
  Impl& impl = *impl_;
  impl.check_passes();
  impl.check(ids, 0);
  impl.engine.checkpoint->check_unchanged();
  const auto total = static_cast<int64_t>(ids.size());
  const auto same = std::ranges::mismatch(ids, tokens()).in1 - ids.begin();
  const bool extends = same == size() && !impl.recurrent_undefined;
  if (!extends || (same == total && impl.logits_position != total)) {
    impl.restore(impl.snapshots.find(same, same == total));
    impl.snapshots.drop_after(size());  // no snapshot lies behind the present position, whatever is fed next
  }
  const int64_t reused = size();
  if (reused == total) return reused;

  std::vector<int64_t> cuts;
  for (const int64_t border : borders) {
    if (border > reused && border <= total) cuts.push_back(border);
  }
  for (int64_t at = (reused / kSnapshotTokens + 1) * kSnapshotTokens; at < total; at += kSnapshotTokens) {
    cuts.push_back(at);
  }
  cuts.push_back(total);
  std::ranges::sort(cuts);
  impl.run(ids.subspan(static_cast<size_t>(reused)), cuts, progress);
  return reused;
}

void Sequence::keep_snapshot() {
  impl_->check_passes();
  if (size() > 0 && !impl_->recurrent_undefined) impl_->keep_snapshot();
}

std::span<const float> Sequence::logits() const noexcept {
  if (size() == 0 || impl_->logits_position != size()) return {};
  return impl_->logits_span();
}

std::span<const int32_t> Sequence::tokens() const noexcept { return impl_->state.tokens(); }
int64_t Sequence::size() const noexcept { return impl_->state.size(); }
int64_t Sequence::context() const noexcept { return impl_->state.context(); }
MemoryPlan Sequence::memory_plan() const noexcept { return impl_->plan; }
int64_t Sequence::max_guesses() const noexcept {
  return impl_->run_memory ? impl_->run_memory->fresh_logits.rows - 1 : 0;
}

void Sequence::clear() {
  impl_->snapshots.drop_after(0);
  impl_->restore(nullptr);
}

}  // namespace kda
