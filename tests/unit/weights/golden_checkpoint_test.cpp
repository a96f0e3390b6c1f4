// The random checkpoints that carry reference logits, as Hugging Face folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "formats/safetensors.h"
#include "support/shared_data.h"
#include "weights/checkpoint.h"

namespace kda {
namespace {

float bf16_at(const SafeTensor& tensor, int64_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + index * 2, sizeof(bits));
  return bf16_to_float(bits);
}

float bf16_at(const QMatView& m, int64_t row, int64_t col) {
  uint16_t bits = 0;
  std::memcpy(&bits, m.data + row * m.row_bytes + col * 2, sizeof(bits));
  return bf16_to_float(bits);
}

class GoldenCheckpoint : public testing::TestWithParam<const char*> {};

TEST_P(GoldenCheckpoint, Loads) {
  KDA_SHARED_OR_SKIP(shared);
  const auto folder = shared / "golden" / GetParam();
  const auto checkpoint = Checkpoint::open({ModelKind::kFolder, folder});
  const SafeTensorsModel files = SafeTensorsModel::open(folder);

  EXPECT_TRUE(checkpoint->warnings().empty()) << checkpoint->warnings()[0];
  EXPECT_EQ(checkpoint->gguf(), nullptr);
  EXPECT_EQ(checkpoint->chat_template(), "");
  EXPECT_EQ(checkpoint->config().name, GetParam());
  int64_t n_elements = 0;
  int64_t n_bytes = 0;
  for (const auto& [name, tensor] : files.tensors()) {
    n_elements += tensor->n_elements();
    n_bytes += static_cast<int64_t>(tensor->bytes.size());
  }
  EXPECT_EQ(checkpoint->n_parameters(), n_elements);
  EXPECT_EQ(checkpoint->mapped_bytes(), n_bytes);
  EXPECT_EQ(checkpoint->tensors().size(), files.tensors().size());
  checkpoint->check_unchanged();
  checkpoint->check_values();
}

TEST_P(GoldenCheckpoint, SplitsAndTransposesTheKeyAndValueRows) {
  KDA_SHARED_OR_SKIP(shared);
  const auto folder = shared / "golden" / GetParam();
  const auto checkpoint = Checkpoint::open({ModelKind::kFolder, folder});
  const SafeTensorsModel files = SafeTensorsModel::open(folder);
  const ModelConfig& c = checkpoint->config();
  for (int64_t i = 0; i < c.n_layers(); ++i) {
    if (c.layers[static_cast<size_t>(i)].attention != AttentionKind::kMla) continue;
    const SafeTensor& kv = *files.find("model.layers." + std::to_string(i) + ".self_attn.kv_b_proj.weight");
    const MlaWeights& w = checkpoint->weights().layers[static_cast<size_t>(i)].mla;
    ASSERT_EQ(w.k_b.n(), c.n_heads);
    ASSERT_EQ(w.k_b.rows, c.kv_lora_rank);
    ASSERT_EQ(w.k_b.cols, c.qk_nope_head_dim);
    ASSERT_EQ(w.v_b.rows, c.v_head_dim);
    ASSERT_EQ(w.v_b.cols, c.kv_lora_rank);
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const int64_t first = h * (c.qk_nope_head_dim + c.v_head_dim);
      for (int64_t r = 0; r < c.kv_lora_rank; ++r) {
        for (int64_t n = 0; n < c.qk_nope_head_dim; ++n)
          ASSERT_EQ(bf16_at(w.k_b[h], r, n), bf16_at(kv, (first + n) * c.kv_lora_rank + r));
        for (int64_t v = 0; v < c.v_head_dim; ++v)
          ASSERT_EQ(bf16_at(w.v_b[h], v, r), bf16_at(kv, (first + c.qk_nope_head_dim + v) * c.kv_lora_rank + r));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCheckpoint,
                         testing::Values("proportions", "odd-shapes", "q-lora-groups", "extreme-gates"),
                         [](const auto& golden) {
                           std::string name = golden.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Checkpoint, RefusesKimiK3ByName) {
  KDA_SHARED_OR_SKIP(shared);
  for (const char* name : {"k3", "k3-softplus"}) {
    try {
      (void)Checkpoint::open({ModelKind::kFolder, shared / "golden" / name});
      FAIL() << name << " loaded";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(e.what()).find("Kimi K3 features are not supported by this version"), std::string::npos)
          << e.what();
    }
  }
}

}  // namespace
}  // namespace kda
