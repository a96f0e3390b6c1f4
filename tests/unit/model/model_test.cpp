#include "model/model.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/temp_folder.h"
#include "support/tiny_model.h"
#include "unit/kernels/kernel_sets.h"

namespace kda {
namespace {

// Everything that a forward pass runs in, filled with `fill` before it is used.
struct ModelRun {
  ModelRun(const Checkpoint& checkpoint, const KernelTable& kernels, std::byte fill)
      : pool(2),
        memory(bytes(checkpoint, kernels)),
        arena({memory.data(), memory.size_bytes()}),
        state(checkpoint.config(), 40),
        model(checkpoint.config(), checkpoint.weights()) {
    std::memset(memory.data(), static_cast<int>(fill), memory.size_bytes());
    std::memset(state.caches().data(), static_cast<int>(fill), state.caches().size_bytes());
    std::memset(state.recurrent().data(), static_cast<int>(fill), state.recurrent().size_bytes());
    state.clear();
    ops.emplace(pool, kernels, false, ops_limits(checkpoint.config()), arena);
    workspace.emplace(checkpoint.config(), kBatch, arena);
  }

  size_t bytes(const Checkpoint& checkpoint, const KernelTable& kernels) {
    Arena measuring;
    const CpuOps measured(pool, kernels, false, ops_limits(checkpoint.config()), measuring);
    const Workspace measured_workspace(checkpoint.config(), kBatch, measuring);
    return measuring.peak_bytes();
  }

  std::vector<float> logits(std::span<const int32_t> ids, int64_t vocab) {
    std::vector<float> result(static_cast<size_t>(vocab));
    for (size_t done = 0; done < ids.size(); done += kBatch) {
      const auto part = ids.subspan(done, std::min<size_t>(kBatch, ids.size() - done));
      const Segment segment = {&state, part};
      model.forward(*ops, *workspace, {&segment, 1}, nullptr);
      model.logits(*ops, *workspace, static_cast<int64_t>(part.size()) - 1, {result.data(), 1, vocab, vocab}, nullptr);
    }
    return result;
  }

  static constexpr int64_t kBatch = 12;
  ThreadPool pool;
  AlignedBuffer memory;
  Arena arena;
  SequenceState state;
  Model model;
  std::optional<CpuOps> ops;
  std::optional<Workspace> workspace;
};

class ModelTest : public test::KernelSetTest {};

TEST_P(ModelTest, WhatLayInMemoryBeforeDoesNotMatter) {
  for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0}) {
    const test::TempFolder folder;
    const test::TinyModel model({.mla_layers = {1, 3}});
    const auto path = model.write_gguf(folder.path(), {.matrix_type = type});
    const auto checkpoint = Checkpoint::open({ModelKind::kGguf, path});
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 40; ++i) ids.push_back(i * 37 % 96);
    ModelRun zeroed(*checkpoint, *kernels, std::byte{0});
    ModelRun poisoned(*checkpoint, *kernels, std::byte{0xFF});  // every float a NaN
    const auto expected = zeroed.logits(ids, 96);
    EXPECT_EQ(poisoned.logits(ids, 96), expected);
    // A sequence that starts over in memory that another has used.
    poisoned.state.clear();
    std::memset(poisoned.state.caches().data(), 0xFF, poisoned.state.caches().size_bytes());
    EXPECT_EQ(poisoned.logits(ids, 96), expected);
  }
}

TEST_P(ModelTest, RowsOfLogitsAreThoseOfTheirTokens) {
  const test::TempFolder folder;
  test::TinyModel().write_folder(folder.path());
  const auto checkpoint = Checkpoint::open({ModelKind::kFolder, folder.path()});
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  ModelRun all(*checkpoint, *kernels, std::byte{0});
  std::vector<float> rows(3 * 96);
  const Segment segment = {&all.state, ids};
  all.model.forward(*all.ops, *all.workspace, {&segment, 1}, nullptr);
  all.model.logits(*all.ops, *all.workspace, 2, {rows.data(), 3, 96, 96}, nullptr);
  for (size_t i = 0; i < 3; ++i) {
    ModelRun one(*checkpoint, *kernels, std::byte{0});
    const auto expected = one.logits(std::span(ids).first(i + 3), 96);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), rows.begin() + static_cast<std::ptrdiff_t>(i * 96)));
  }
}

KDA_FOR_EVERY_KERNEL_SET(ModelTest);

}  // namespace
}  // namespace kda
