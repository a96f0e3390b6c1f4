// Kimi's real vocabulary against ids that others published, on the data in shared/.
#include <gtest/gtest.h>

#include <chrono>

#include "formats/gguf.h"
#include "formats/json.h"
#include "support/shared_data.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/folder_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace kda {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kNRows = 163840;
constexpr int32_t kNText = 163584;

Vocabulary real_vocabulary(const std::filesystem::path& shared) {
  const auto folder = shared / "data" / "tokenizer";
  return make_folder_vocabulary(read_text_file(folder / "tiktoken.model", size_t{16} << 20),
                                read_text_file(folder / "tokenizer_config.reconstructed.json", size_t{1} << 20), kNRows,
                                folder.string());
}

const Tokenizer& real(const std::filesystem::path& shared) {
  static const Tokenizer kTokenizer{real_vocabulary(shared)};
  return kTokenizer;
}

std::string wikitext(const std::filesystem::path& shared) {
  return read_text_file(shared / "data" / "text" / "wikitext-2-raw.wiki.test.raw", size_t{16} << 20);
}

void expect_ids(const Tokenizer& tokenizer, const std::string& text, const Ids& ids, bool allow_special) {
  EXPECT_EQ(tokenizer.encode(text, allow_special), ids) << text;
  EXPECT_EQ(tokenizer.decode(ids, allow_special), text);
}

// Ids from Moonshot's own tokenizer, special tokens allowed (model-spec 6.2 and 6.4).
TEST(PublishedIds, AgreeWithMoonshotsTokenizer) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = real(shared);
  const std::pair<const char*, Ids> goldens[] = {
      {"The capital of France is", {1008, 10484, 318, 15383, 387}},
      {"getUserName iPhone helloWorld HTTPServer parseJSONResponse",
       {618, 3479, 1263, 1032, 11868, 40493, 14350, 73374, 4022, 9710, 11346, 4323}},
      {"中文abc 你好，世界！こんにちは 한국어 \u2E80\u3005\u8C48\U0002EBF0",
       {16717, 8497,  220,  33845, 378, 2243,   856,  16444, 29194, 6880, 43566, 8831, 78560,
        54078, 28763, 1425, 118,   222, 106101, 1353, 230,   172,   106,  107,   108}},
      {"  leading spaces, double  spaces\tand\ttabs\nnew\n\nlines\r\n",
       {220, 8134, 14803, 11, 4186, 220, 14803, 58443, 5604, 5609, 198, 3514, 382, 11541, 462}},
      {"Numbers: 1234567 3.14159 1,000,000 2026-09-24 0x1F",
       {38587, 25,   220, 6694, 12972, 22, 220,  18, 13,   18702, 6276, 220, 16, 11, 1476,
        11,    1476, 220, 2975, 21,    12, 5142, 12, 1903, 220,   15,   87,  16, 37}},
      {"It's they're we've I'm you'll he'd CAN'T", {15881, 19564, 22205, 6806, 13556, 84053, 32330, 64833}},
      {"emoji 🙂🚀 and café naïve Zürich \uFB01",
       {33120, 56774, 5885, 40101, 316, 70591, 7915, 44187, 367, 2970, 14541, 969, 74792, 102746}},
      {"def f(x):\n    return x**2  # comment\n",
       {1166, 285, 3940, 2360, 274, 745, 1288, 381, 17, 220, 1214, 8018, 198}},
      {"[BOS]hello[EOS] <|im_user|>user<|im_middle|>hi<|im_end|>",
       {163584, 22931, 163585, 220, 163587, 2482, 163601, 9663, 163586}},
      {"path/to/file.go https://example.com/a?b=c",
       {4953, 49520, 34947, 38268, 5425, 1316, 17480, 1304, 18825, 30, 65, 23789}},
      {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
       {101908, 101908, 101908, 101908, 101908, 101908, 101908, 101908}},
      {"According to all known laws of aviation,", {18805, 308, 799, 5624, 12524, 318, 57195, 11}},
      {"2 + 2 =", {17, 715, 220, 17, 327}},
      {"def fibonacci(n):", {1166, 21490, 96445, 2145, 3118}},
      {"Write a haiku about rain.", {9570, 261, 10612, 39677, 1215, 12981, 13}},
      {"Once upon a time in a small village,", {13426, 7625, 261, 1169, 306, 261, 3307, 17316, 11}},
      {"Explain gravity in one sentence.", {91561, 43458, 306, 1101, 23819, 13}},
      {"user", {2482}},
      {"assistant", {69702}},
  };
  for (const auto& [text, ids] : goldens) expect_ids(tokenizer, text, ids, true);
}

TEST(PublishedIds, AgreeWithOtherTokenizersVectors) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = real(shared);
  const auto folder = shared / "data" / "vectors";
  const Json splintr = read_json_file(folder / "splintr-kimi_k2.json");
  for (const char* list : {"cases", "unit"}) {
    for (const Json& test : splintr.at(list)) expect_ids(tokenizer, test.at("text"), test.at("ids"), false);
  }
  for (const Json& test : read_json_file(folder / "tattletale-tiktoken_kimik2.5.json")) {
    expect_ids(tokenizer, test.at("text"), test.at("token_ids"), false);
  }
  const Json misc = read_json_file(folder / "misc-published-ids.json");
  for (const Json& test : misc.at("published_ids")) {
    // One entry says only what ids decode to; the others were encoded.
    if (test.value("kind", "") == "decode") {
      EXPECT_EQ(tokenizer.decode(test.at("ids").get<Ids>()), test.at("text").get<std::string>());
    } else {
      expect_ids(tokenizer, test.at("text"), test.at("ids"), false);
    }
  }
}

TEST(PublishedIds, AgreeOnRenderedChats) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = real(shared);
  const Json file = read_json_file(shared / "data" / "vectors" / "misc-published-ids.json");
  for (const Json& chat : file.at("chat_token_counts_published")) {
    std::string text;
    for (const Json& message : chat.at("messages")) {
      const auto role = message.at("role").get<std::string>();
      text += "<|im_" + role + "|>" + role + "<|im_middle|>" + message.at("content").get<std::string>() + "<|im_end|>";
    }
    text += "<|im_assistant|>assistant<|im_middle|>";
    EXPECT_EQ(tokenizer.encode(text, true).size(), chat.at("prompt_tokens_published").get<size_t>());
    expect_ids(tokenizer, text, chat.at("ids_mine"), true);
  }
}

TEST(PublishedIds, GiveTheSpecialTokensTheirNames) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = real(shared);
  EXPECT_TRUE(tokenizer.vocabulary().notes.empty());
  const Json file = read_json_file(shared / "data" / "tokenizer" / "special_tokens.json");
  for (const auto& [name, id] : file.at("kimi_linear_k2").items())
    EXPECT_EQ(tokenizer.find_special(name), id.get<int>());
  EXPECT_EQ(tokenizer.vocabulary().bos, 163584);
  EXPECT_EQ(tokenizer.vocabulary().eos, 163585);
  EXPECT_EQ(tokenizer.vocabulary().pad, 163839);
  EXPECT_EQ(Ids(tokenizer.end_ids().begin(), tokenizer.end_ids().end()), (Ids{163586, 163585, 163593}));
  EXPECT_EQ(tokenizer.piece(163600), "<|reserved_token_163600|>");
  std::string names;
  for (int32_t id = kNText; id < tokenizer.size(); ++id) {
    EXPECT_EQ(tokenizer.kind(id), TokenKind::kControl);
    EXPECT_EQ(tokenizer.decode(Ids{id}), "");
    names += tokenizer.piece(id);
  }
  EXPECT_EQ(tokenizer.encode(names, true).size(), 256U);
  for (const int32_t id : tokenizer.encode(names)) ASSERT_LT(id, kNText);
}

// Each text token is one piece's whole, so it must come out of its own bytes wherever the splitter leaves it in one.
TEST(PublishedIds, GiveWikitextBack) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = real(shared);
  const std::string text = wikitext(shared);
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.encode(text, true), ids);
}

TEST(PublishedIds, SurviveTheWayThroughGguf) {
  KDA_SHARED_OR_SKIP(shared);
  const Vocabulary expected = real_vocabulary(shared);
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (size_t id = 0; id < expected.bytes.size(); ++id) {
    const bool is_text = expected.kinds[id] == TokenKind::kText;
    tokens.push_back(is_text ? encode_byte_alphabet(expected.bytes[id]) : expected.bytes[id]);
    types.push_back(is_text ? 1 : 3);
  }
  GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "kimi-k2");
  writer.add_string_array("tokenizer.ggml.tokens", tokens);
  writer.add_int32_array("tokenizer.ggml.token_type", types);
  writer.add_uint32("tokenizer.ggml.bos_token_id", 163584);
  const std::vector<std::byte> bytes = writer.finish();
  const GgufFile file = GgufFile::parse(bytes, "kimi.gguf");

  const auto start = std::chrono::steady_clock::now();
  Vocabulary found = read_gguf_vocabulary(file, kNRows);
  const auto read = std::chrono::steady_clock::now();
  EXPECT_EQ(found.bytes, expected.bytes);
  EXPECT_EQ(found.kinds, expected.kinds);
  EXPECT_EQ(found.bos, expected.bos);
  const auto before = std::chrono::steady_clock::now();
  const Tokenizer tokenizer(std::move(found));
  const auto built = std::chrono::steady_clock::now();
  const auto ms = [](auto duration) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
  };
  RecordProperty("read_ms", ms(read - start));
  RecordProperty("build_ms", ms(built - before));
  EXPECT_EQ(tokenizer.encode("The capital of France is"), (Ids{1008, 10484, 318, 15383, 387}));
}

TEST(PublishedIds, ReadTheDemoModelsFolder) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer tokenizer(read_folder_vocabulary((shared / "demo-model" / "checkpoint").string(), 1024));
  EXPECT_TRUE(tokenizer.vocabulary().notes.empty());
  EXPECT_EQ(tokenizer.size(), 1024);
  EXPECT_EQ(tokenizer.find_special("<|im_end|>"), 1018);
  EXPECT_EQ(tokenizer.vocabulary().eos, 1017);
  const std::string text = wikitext(shared).substr(0, 100000);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

}  // namespace
}  // namespace kda
