#include "state/snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace kda {
namespace {

ModelConfig config() {
  ModelConfig c;
  c.layers = {{AttentionKind::kKda, FfnKind::kDense},
              {AttentionKind::kMla, FfnKind::kDense},
              {AttentionKind::kKda, FfnKind::kDense}};
  c.kda_heads = 2;
  c.kda_head_dim = 4;
  c.conv_kernel = 3;
  c.kv_lora_rank = 5;
  c.qk_rope_head_dim = 3;
  return c;
}

void advance(SequenceState& state, int64_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(state.size()));
  state.append(ids);
  std::iota(state.recurrent().begin(), state.recurrent().end(), static_cast<float>(state.size()));
}

TEST(SequenceState, SizesFollowFromTheDimensions) {
  // a layer: state 2 * 4 * 4, tails 3 * (3 - 1) * 8
  EXPECT_EQ(SequenceState::recurrent_bytes(config()), 2 * (32 + 48) * 4);
  EXPECT_EQ(SequenceState::cache_bytes(config(), 100), 100 * (5 + 3) * 4 + 100 * 4);
}

TEST(SequenceState, TentativeTokensCountWhenConfirmed) {
  // 2 layers of 5 rows: q, k, v, f of 8 channels, 2 heads
  EXPECT_EQ(SequenceState::tentative_bytes(config(), 5), 2 * 5 * (4 * 8 + 2) * 4);
  SequenceState state(config(), 10, 5);
  EXPECT_FALSE(state.kda(0).kept.q);
  const KdaRows kept = state.kda(2, 5).kept;
  EXPECT_EQ(kept.beta.rows, 5);
  kept.q.row(0)[0] = 1;
  kept.beta.row(4)[1] = 2;  // the very last float
  EXPECT_FALSE(state.kda(2).pending.q);
  state.append_tentative(std::vector<int32_t>{7, 8, 9});
  EXPECT_EQ(state.size(), 1);
  EXPECT_EQ(state.tentative().size(), 2U);
  state.confirm();
  EXPECT_EQ(state.tokens().back(), 8);
  EXPECT_EQ(state.n_pending(), 2);
  EXPECT_EQ(state.kda(2).pending.q.rows, 2);
  EXPECT_EQ(state.kda(2).pending.q.row(0)[0], 1);
  state.append_tentative(std::vector<int32_t>{4});
  EXPECT_EQ(state.size(), 3);
  EXPECT_EQ(state.n_pending(), 1);
  EXPECT_TRUE(state.tentative().empty());
  state.settled();
  EXPECT_EQ(state.n_pending(), 0);
  EXPECT_FALSE(state.kda(0).pending.q);
}

TEST(SequenceState, LayersDoNotOverlap) {
  SequenceState state(config(), 10);
  EXPECT_EQ(state.kda(0).state, state.recurrent().data());
  EXPECT_EQ(state.kda(0).conv_tail, state.recurrent().data() + 32);
  EXPECT_EQ(state.kda(2).state, state.recurrent().data() + 80);
  EXPECT_EQ(state.latents(1), state.caches().data());
  EXPECT_EQ(state.caches().size(), 80U);
}

TEST(SequenceState, IsAssignedFromTheBytesOfAnother) {
  SequenceState from(config(), 10, 2);
  advance(from, 4);
  ASSERT_EQ(from.mla_layers().size(), 1U);
  EXPECT_EQ(from.mla_layers()[0], 1);
  const std::span<std::byte> all = from.latent_rows(1, 0, 10);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i);
  SequenceState to(config(), 7, 2);
  to.append_tentative(std::vector<int32_t>{7, 8});
  std::ranges::copy(from.latent_rows(1, 0, 4), to.latent_rows(1, 0, 4).data());
  to.assign(from.tokens());
  EXPECT_TRUE(std::ranges::equal(to.tokens(), from.tokens()));
  EXPECT_EQ(to.n_pending(), 0);
  EXPECT_TRUE(to.tentative().empty());
  const std::span<std::byte> row = to.latent_rows(1, 3, 4);
  ASSERT_EQ(static_cast<int64_t>(row.size()), to.latent_row_bytes());
  EXPECT_EQ(row[0], static_cast<std::byte>(3 * to.latent_row_bytes()));
  EXPECT_EQ(to.latent_rows(1, 0, 7).data(), to.latent_rows(1, 3, 4).data() - 3 * to.latent_row_bytes());
}

TEST(SequenceState, AHugeContextTouchesNoMemory) {
  SequenceState state(config(), int64_t{1} << 27);  // 4.5 GB of addresses
  advance(state, 3);
  EXPECT_EQ(state.tokens().back(), 2);
}

TEST(Snapshot, RestoresExactly) {
  SequenceState state(config(), 10);
  advance(state, 4);
  const std::vector<float> before(state.recurrent().begin(), state.recurrent().end());
  const std::vector<float> logits = {1, 2, 3};
  const Snapshot snapshot(state, logits);
  advance(state, 5);
  snapshot.restore(state);
  EXPECT_EQ(state.size(), 4);
  EXPECT_TRUE(std::ranges::equal(state.recurrent(), before));
  EXPECT_TRUE(std::ranges::equal(snapshot.logits(), logits));
}

TEST(SnapshotStore, FindsTheLatestAtOrBefore) {
  SequenceState state(config(), 100);
  SnapshotStore store(8);
  for (int i = 0; i < 3; ++i) {
    advance(state, 10);
    store.add(state, i == 1 ? std::vector<float>{1} : std::vector<float>{});
  }
  EXPECT_EQ(store.find(9, false), nullptr);
  EXPECT_EQ(store.find(29, false)->position(), 20);
  EXPECT_EQ(store.find(30, false)->position(), 30);
  EXPECT_EQ(store.find(30, true)->position(), 20);  // 30 has no logits
  EXPECT_EQ(store.find(20, true)->position(), 20);
  store.drop_after(20);
  EXPECT_EQ(store.find(100, false)->position(), 20);
}

TEST(SnapshotStore, AddingAPositionTwiceKeepsTheLogits) {
  SequenceState state(config(), 100);
  SnapshotStore store(8);
  advance(state, 10);
  store.add(state, {});
  store.add(state, std::vector<float>{7});
  store.add(state, {});
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.find(10, true)->logits()[0], 7);
}

TEST(SnapshotStore, ThinsOutTheMiddleAndKeepsTheEnds) {
  SequenceState state(config(), 10000);
  SnapshotStore store(8);
  for (int i = 0; i < 1000; ++i) {
    advance(state, 10);
    store.add(state, {});
  }
  const std::vector<int64_t> positions = store.positions();
  ASSERT_EQ(positions.size(), 8U);
  EXPECT_EQ(positions.front(), 10);
  EXPECT_EQ(positions.back(), 10000);
  EXPECT_EQ(positions[6], 9990);
  for (size_t i = 2; i + 1 < positions.size(); ++i) {  // gaps shrink towards the end
    EXPECT_LE(positions[i + 1] - positions[i], positions[i] - positions[i - 1]);
  }
}

TEST(SnapshotStore, OfOneKeepsTheLatest) {
  SequenceState state(config(), 100);
  SnapshotStore store(1);
  for (int i = 0; i < 3; ++i) {
    advance(state, 10);
    store.add(state, {});
  }
  EXPECT_EQ(store.positions(), std::vector<int64_t>{30});
}

}  // namespace
}  // namespace kda
