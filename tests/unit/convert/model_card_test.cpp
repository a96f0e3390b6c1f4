#include "convert/model_card.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace kda {
namespace {

using Words = std::vector<std::string>;

TEST(ModelCard, TakesNamesApart) {
  ModelCard card;
  split_model_name("Kimi-Linear-48B-A3B-Instruct", card);
  EXPECT_EQ(card.basename, "Kimi-Linear");
  EXPECT_EQ(card.size_label, "48B-A3B");
  EXPECT_EQ(card.finetune, "Instruct");
  ModelCard plain;
  split_model_name("demo", plain);
  EXPECT_EQ(plain.basename, "demo");
  EXPECT_EQ(plain.size_label + plain.finetune, "");
}

TEST(ModelCard, ReadsTheFormsOfFrontMatter) {
  ModelCard card;
  read_front_matter(
      "---\r\nlicense: mit\nlicense_name: \"own\"\nbase_model:\n- moonshotai/Kimi-Linear-48B-A3B-Base\n"
      "language: [en, 'zh']\ntags:\n  - kda\n# a remark\nextra:\n  license: gpl\npipeline_tag: text-generation\n---\n"
      "license: not this one\n",
      card);
  EXPECT_EQ(card.license, "mit");
  EXPECT_EQ(card.license_name, "own");
  EXPECT_EQ(card.base_models, (Words{"moonshotai/Kimi-Linear-48B-A3B-Base"}));
  EXPECT_EQ(card.languages, (Words{"en", "zh"}));
  EXPECT_EQ(card.tags, (Words{"kda", "text-generation"}));
  ModelCard none;
  read_front_matter("# A title\nlicense: mit\n", none);
  EXPECT_EQ(none.license, "");
}

TEST(ModelCard, FindsTheRepositoryOfACachedSnapshot) {
  const test::TempFolder folder;
  const auto snapshot = folder.path() / "models--moonshotai--Kimi-Linear-48B-A3B-Instruct" / "snapshots" / "e1df551a";
  std::filesystem::create_directories(snapshot);
  std::ofstream(snapshot / "README.md") << "---\nlicense: mit\n---\n";
  const ModelCard card = read_model_card(snapshot);
  EXPECT_EQ(card.repository, "moonshotai/Kimi-Linear-48B-A3B-Instruct");
  EXPECT_EQ(card.file_name, "Kimi-Linear-48B-A3B-Instruct");
  EXPECT_EQ(card.license, "mit");
}

}  // namespace
}  // namespace kda
