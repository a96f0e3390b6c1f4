// Points of a timeline to which it can come back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "state/sequence_state.h"

namespace kda {

/// The KDA part of a sequence's state after `position` tokens, and the logits there when they were computed. Latent
/// rows are not copied: they stay in the cache for as long as the tokens before `position` are the same.
class Snapshot {
 public:
  /// Copies. logits may be empty. Throws Error(kLimit).
  Snapshot(const SequenceState& state, std::span<const float> logits);

  [[nodiscard]] int64_t position() const noexcept { return position_; }
  [[nodiscard]] std::span<const float> logits() const noexcept { return logits_; }
  /// Brings state back to position(); its first position() tokens must be those of the snapshot.
  void restore(SequenceState& state) const noexcept;

 private:
  int64_t position_;
  AlignedBuffer recurrent_;
  std::vector<float> logits_;
};

/// Snapshots of one timeline, by position. When they become too many, the first and the latest are kept and the others
/// thinned out, the more the further back.
class SnapshotStore {
 public:
  /// max_count of 0 keeps none.
  explicit SnapshotStore(size_t max_count) : max_count_(max_count) {}

  /// Keeps the present state, in which no rows are pending; replaces a snapshot of the same position unless that one
  /// has logits and this one none.
  void add(const SequenceState& state, std::span<const float> logits);
  /// The latest snapshot at or before `position`, or nullptr; with `need_logits`, one at `position` itself counts only
  /// when it has logits.
  [[nodiscard]] const Snapshot* find(int64_t position, bool need_logits) const noexcept;
  /// Drops the snapshots after `position`: the tokens there have changed.
  void drop_after(int64_t position) noexcept;
  [[nodiscard]] size_t size() const noexcept { return snapshots_.size(); }
  [[nodiscard]] std::vector<int64_t> positions() const;

 private:
  size_t max_count_;
  std::vector<std::unique_ptr<Snapshot>> snapshots_;  // by position, increasing
};

}  // namespace kda
