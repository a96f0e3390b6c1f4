#include "measure/workload.h"

#include <gtest/gtest.h>

#include "formats/hub.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace kda {
namespace {

std::unique_ptr<Checkpoint> open(const std::filesystem::path& path) {
  return Checkpoint::open(locate_model(path.string(), [](const char*) { return std::string(); }));
}

Workload workload_of(const Checkpoint& checkpoint) { return {checkpoint.config(), checkpoint.weights()}; }

// With every expert in use and all in F32, a token reads the whole file but the other rows of the embedding.
TEST(Workload, ReadsTheWholeFileWhereAllExpertsAreUsed) {
  for (const int64_t q_rank : {int64_t{0}, int64_t{32}}) {
    const test::TempFolder folder;
    const test::TinyModel model({.q_rank = q_rank, .experts = 4, .experts_used = 4});
    const auto checkpoint = open(model.write_gguf(folder.path()));
    int64_t bytes = 0;
    for (const TensorListing& tensor : checkpoint->tensors()) bytes += tensor.bytes;
    const test::TinyModelOptions& o = model.options();
    EXPECT_EQ(workload_of(*checkpoint).weight_bytes(), bytes - 4 * (o.vocab - 1) * o.hidden);
  }
}

TEST(Workload, CountsTheBlocksOfQuantisedWeightsAndOnlyTheExpertsInUse) {
  const test::TempFolder exact_folder, folder;
  const test::TinyModel model({.experts = 6, .experts_used = 2});
  const auto exact = open(model.write_gguf(exact_folder.path()));
  const auto q8 = open(model.write_gguf(folder.path(), {.matrix_type = TensorType::kQ8_0}));
  const test::TinyModelOptions& o = model.options();
  int64_t exact_bytes = 0, q8_bytes = 0;
  const auto sum = [&](const Checkpoint& checkpoint, int64_t embedding_row) {
    int64_t bytes = 0;
    for (const TensorListing& tensor : checkpoint.tensors()) {
      const bool experts = tensor.name.find("_exps") != std::string::npos;
      bytes += experts                              ? tensor.bytes * o.experts_used / o.experts
               : tensor.name == "token_embd.weight" ? embedding_row
                                                    : tensor.bytes;
    }
    return bytes;
  };
  exact_bytes = sum(*exact, 4 * o.hidden);
  q8_bytes = sum(*q8, o.hidden / 32 * 34);
  EXPECT_EQ(workload_of(*exact).weight_bytes(), exact_bytes);
  EXPECT_EQ(workload_of(*q8).weight_bytes(), q8_bytes);
  EXPECT_LT(q8_bytes, exact_bytes / 2);
}

TEST(Workload, CountsStatesTwiceAndLatentsForEveryTokenBefore) {
  const test::TempFolder folder;
  const test::TinyModel model({.n_layers = 4, .mla_layers = {2, 3}});
  const auto checkpoint = open(model.write_gguf(folder.path()));
  const Workload workload = workload_of(*checkpoint);
  const test::TinyModelOptions& o = model.options();
  const int64_t width = o.kda_heads * o.kda_head_dim;
  const int64_t state = 2 * 4 * (width * o.kda_head_dim + 3 * (o.taps - 1) * width);  // two KDA layers
  const int64_t latent = 2 * 4 * (o.kv_rank + o.rope);                                // two MLA layers
  EXPECT_EQ(workload.generation_bytes(0, 1), workload.weight_bytes() + 2 * state + 2 * latent);
  EXPECT_EQ(workload.generation_bytes(100, 1), workload.weight_bytes() + 2 * state + 102 * latent);
  EXPECT_EQ(workload.generation_bytes(100, 2), workload.generation_bytes(100, 1) + workload.generation_bytes(101, 1));
}

TEST(Workload, CountsTheMultiplyAddsOfEveryProduct) {
  const test::TempFolder folder;
  const test::TinyModel model({.n_layers = 4, .mla_layers = {2}, .experts = 6, .experts_used = 2});
  const auto checkpoint = open(model.write_gguf(folder.path()));
  const Workload workload = workload_of(*checkpoint);
  const test::TinyModelOptions& o = model.options();
  const int64_t d = o.hidden, c = o.kda_heads * o.kda_head_dim, k = o.kda_head_dim;
  const int64_t kda = 3 * c * d + o.kda_heads * d + 2 * (k * d + c * k) + d * c  // products
                      + 3 * c * o.taps + 3 * c * k;                              // convolutions and state
  const int64_t mla = o.heads * (o.nope + o.rope) * d + (o.kv_rank + o.rope) * d +
                      o.heads * o.kv_rank * (o.nope + o.value) + d * o.heads * o.value;
  const int64_t dense = 3 * d * o.ffn;
  const int64_t moe = o.experts * d + 3 * d * o.expert_ffn * (o.experts_used + o.shared_experts);
  const int64_t token = 3 * kda + mla + dense + 3 * moe;
  const int64_t head = o.vocab * d;
  const int64_t pair = o.heads * (o.nope + o.rope + o.value);
  EXPECT_EQ(workload.prompt_macs(0, 1), token + head + pair);
  EXPECT_EQ(workload.prompt_macs(0, 3), 3 * token + head + 6 * pair);
  EXPECT_EQ(workload.prompt_macs(10, 2), 2 * token + head + (11 + 12) * pair);
}

}  // namespace
}  // namespace kda
