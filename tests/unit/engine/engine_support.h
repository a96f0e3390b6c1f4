// A tiny model on disk, opened.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace kda::test {

inline std::string no_environment(const char*) { return {}; }

inline std::unique_ptr<Engine> open_engine(const std::filesystem::path& model, const EngineOptions& options) {
  return Engine::open(model.string(), options, no_environment);
}

/// Token ids that look random, all below 96.
inline std::vector<int32_t> some_ids(int64_t n, uint32_t seed = 1) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>((seed >> 8) % 96));
  }
  return ids;
}

inline std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

/// A model with two layers of each attention kind.
class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    TinyModel({.mla_layers = {1, 3}}).write_folder(folder_.path());
    engine_ = open_engine(folder_.path(), {.threads = 2, .batch_tokens = 16, .max_guesses = 7});
  }

  /// Logits after ids, computed from nothing.
  std::vector<float> cold(std::span<const int32_t> ids) const {
    const auto sequence = engine_->new_sequence(200);
    sequence->feed(ids);
    return copy(sequence->logits());
  }

  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace kda::test
