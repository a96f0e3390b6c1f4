#include "tokenizer/merges.h"

#include <gtest/gtest.h>

#include "formats/json.h"
#include "support/shared_data.h"
#include "tokenizer/byte_pair_encoder.h"
#include "tokenizer/folder_vocabulary.h"

namespace kda {
namespace {

std::vector<std::string> with_bytes(std::vector<std::string> tokens) {
  std::vector<std::string> out;
  for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
  out.insert(out.end(), tokens.begin(), tokens.end());
  return out;
}

using Pairs = std::vector<std::pair<int32_t, int32_t>>;

TEST(Merges, AreWhatTokensOfLowerRankLeave) {
  // "abc" is ab + c, for "bc" comes later; "abcd" is ab + cd, for cd has a lower rank than abc.
  EXPECT_EQ(derive_merges(with_bytes({"ab", "cd", "abc", "bc", "abcd"})),
            (Pairs{{'a', 'b'}, {'c', 'd'}, {256, 'c'}, {'b', 'c'}, {256, 257}}));
}

TEST(Merges, LeaveOutWhatMergingCannotReach) {
  EXPECT_EQ(derive_merges(with_bytes({"xyz", "xy"})), (Pairs{{'x', 'y'}}));
}

// Applying the merges in their order gives each token back.
TEST(Merges, OfThePublishedVocabularyAre163328) {
  KDA_SHARED_OR_SKIP(shared);
  const auto path = shared / "data/tokenizer/tiktoken.model";
  const std::vector<std::string> tokens = parse_tiktoken(read_text_file(path, 1U << 24), path.string());
  const Pairs merges = derive_merges(tokens);
  ASSERT_EQ(merges.size(), 163328U);
  const BytePairEncoder encoder(tokens);
  int32_t last = -1;
  for (const auto& [left, right] : merges) {
    const auto made = encoder.find(tokens[left] + tokens[right]);
    ASSERT_TRUE(made);
    EXPECT_GT(*made, std::max({last, left, right}));  // in order of rank, of tokens made before
    last = *made;
  }
}

}  // namespace
}  // namespace kda
