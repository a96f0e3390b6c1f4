#include "state/snapshots.h"

#include <algorithm>
#include <ranges>

#include "base/error.h"

namespace kda {

Snapshot::Snapshot(const SequenceState& state, std::span<const float> logits)
    : position_(state.size()), recurrent_(state.recurrent().size_bytes()), logits_(logits.begin(), logits.end()) {
  std::ranges::copy(state.recurrent(), reinterpret_cast<float*>(recurrent_.data()));
}

void Snapshot::restore(SequenceState& state) const noexcept {
  state.truncate(position_);
  std::ranges::copy(recurrent_.as<const float>(state.recurrent().size()), state.recurrent().data());
}

void SnapshotStore::add(const SequenceState& state, std::span<const float> logits) {
  KDA_CHECK(state.n_pending() == 0);
  if (max_count_ == 0) return;
  const auto at = std::ranges::lower_bound(snapshots_, state.size(), {}, [](const auto& s) { return s->position(); });
  if (at != snapshots_.end() && (*at)->position() == state.size()) {
    if (!logits.empty() || (*at)->logits().empty()) *at = std::make_unique<Snapshot>(state, logits);
    return;
  }
  KDA_CHECK(at == snapshots_.end());  // drop_after() came before
  snapshots_.push_back(std::make_unique<Snapshot>(state, logits));
  if (snapshots_.size() <= max_count_) return;
  if (max_count_ == 1) {
    snapshots_.erase(snapshots_.begin());
    return;
  }
  // Drop the one whose loss leaves the smallest gap, measured by how far back it lies.
  size_t drop = 1;
  double smallest = 0;
  for (size_t i = 1; i + 1 < snapshots_.size(); ++i) {
    const auto gap = static_cast<double>(snapshots_[i + 1]->position() - snapshots_[i - 1]->position());
    const auto back = static_cast<double>(snapshots_.back()->position() - snapshots_[i]->position());
    if (i == 1 || gap / back < smallest) {
      smallest = gap / back;
      drop = i;
    }
  }
  snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(drop));
}

const Snapshot* SnapshotStore::find(int64_t position, bool need_logits) const noexcept {
  for (const auto& snapshot : std::views::reverse(snapshots_)) {
    if (snapshot->position() > position) continue;
    if (snapshot->position() == position && need_logits && snapshot->logits().empty()) continue;
    return snapshot.get();
  }
  return nullptr;
}

void SnapshotStore::drop_after(int64_t position) noexcept {
  std::erase_if(snapshots_, [&](const auto& s) { return s->position() > position; });
}

std::vector<int64_t> SnapshotStore::positions() const {
  std::vector<int64_t> result;
  for (const auto& s : snapshots_) result.push_back(s->position());
  return result;
}

}  // namespace kda
