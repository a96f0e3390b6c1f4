#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "formats/gguf.h"
#include "small_vocabulary.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/folder_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace kda {
namespace {

using Notes = std::vector<std::string>;

/// What a GGUF file says of its tokenizer; absent where empty.
struct GgufTokenizer {
  std::string model = "gpt2";
  std::string pre = "kimi-k2";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::pair<std::string, uint32_t>> ids;
};

GgufTokenizer small_gguf() {
  const Vocabulary vocabulary = test::small_vocabulary();
  GgufTokenizer tokenizer;
  for (size_t id = 0; id < vocabulary.bytes.size(); ++id) {
    const bool is_text = vocabulary.kinds[id] == TokenKind::kText;
    tokenizer.tokens.push_back(is_text ? encode_byte_alphabet(vocabulary.bytes[id]) : vocabulary.bytes[id]);
    tokenizer.types.push_back(is_text ? 1 : vocabulary.kinds[id] == TokenKind::kControl ? 3 : 5);
  }
  tokenizer.ids = {{"bos", 304}, {"eos", 305}};
  return tokenizer;
}

constexpr int64_t kNRows = 311;

Vocabulary read(const GgufTokenizer& tokenizer, int64_t n_rows = kNRows) {
  GgufWriter writer;
  if (!tokenizer.model.empty()) writer.add_string("tokenizer.ggml.model", tokenizer.model);
  if (!tokenizer.pre.empty()) writer.add_string("tokenizer.ggml.pre", tokenizer.pre);
  if (!tokenizer.tokens.empty()) writer.add_string_array("tokenizer.ggml.tokens", tokenizer.tokens);
  if (!tokenizer.types.empty()) writer.add_int32_array("tokenizer.ggml.token_type", tokenizer.types);
  for (const auto& [name, id] : tokenizer.ids) writer.add_uint32("tokenizer.ggml." + name + "_token_id", id);
  const std::vector<std::byte> bytes = writer.finish();
  return read_gguf_vocabulary(GgufFile::parse(bytes, "small.gguf"), n_rows);
}

template <typename Function>
std::string error_of(Function function, ErrorCode code = ErrorCode::kFormat) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string gguf_error(const GgufTokenizer& tokenizer, ErrorCode code = ErrorCode::kFormat) {
  return error_of([&] { (void)read(tokenizer); }, code);
}

TEST(ByteAlphabet, WritesBytesAsGpt2Does) {
  EXPECT_EQ(encode_byte_alphabet("a b\n"), "aĠbĊ");
  EXPECT_EQ(encode_byte_alphabet(std::string_view("\0\x7F\xAD\xA0", 4)), "ĀġŃł");
  EXPECT_EQ(encode_byte_alphabet("\xE4\xB8\xAD"), "ä¸Ń");
}

TEST(ByteAlphabet, ReadsBackEveryByteAndNothingElse) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(decode_byte_alphabet(encode_byte_alphabet(all)), all);
  for (const char* bad : {" ", "\n", "\u00AD", "\u0144", "中", "\xC4", "\xFF", "\xC4z", "\x7F"}) {
    EXPECT_EQ(decode_byte_alphabet(bad), std::nullopt) << bad;
  }
}

TEST(GgufVocabulary, ReadsTokensKindsAndSpecialIds) {
  const Vocabulary expected = test::small_vocabulary();
  const Vocabulary found = read(small_gguf());
  EXPECT_EQ(found.bytes, expected.bytes);
  EXPECT_EQ(found.kinds, expected.kinds);
  EXPECT_EQ(found.bos, 304);
  EXPECT_EQ(found.eos, 305);
  EXPECT_EQ(found.eot, std::nullopt);
  EXPECT_EQ(found.notes, Notes{});
}

TEST(GgufVocabulary, NotesSurplusTokensAndFillsMissingOnes) {
  const Vocabulary fewer = read(small_gguf(), 309);
  EXPECT_EQ(fewer.bytes.size(), 309U);
  EXPECT_EQ(fewer.notes, (Notes{"311 tokens for 309 rows of the embedding: the last 2 are left out"}));
  const Vocabulary more = read(small_gguf(), 313);
  EXPECT_EQ(more.bytes.size(), 313U);
  EXPECT_EQ(more.kinds.back(), TokenKind::kUnused);
  EXPECT_EQ(more.bytes.back(), "<|reserved_token_312|>");
  EXPECT_EQ(more.notes, (Notes{"311 tokens for 313 rows of the embedding: the last 2 rows are placeholders"}));
  EXPECT_EQ(Tokenizer(more).decode(std::vector<int32_t>{312}), "");
}

TEST(GgufVocabulary, IgnoresSpecialIdsThatMakeNoSense) {
  GgufTokenizer tokenizer = small_gguf();
  tokenizer.ids = {{"bos", 11}, {"eos", 311}, {"eot", 0xFFFFFFFF}, {"padding", 307}};
  const Vocabulary vocabulary = read(tokenizer);
  EXPECT_EQ(vocabulary.bos, std::nullopt);
  EXPECT_EQ(vocabulary.eos, std::nullopt);
  EXPECT_EQ(vocabulary.eot, std::nullopt);
  EXPECT_EQ(vocabulary.pad, 307);
  EXPECT_EQ(vocabulary.notes,
            (Notes{"the bos token id 11 is ignored: it is ordinary text",
                   "the eos token id 311 is ignored: it is out of range, there are 311 tokens",
                   "the eot token id 4294967295 is ignored: it is out of range, there are 311 tokens"}));
}

TEST(GgufVocabulary, TakesUserDefinedTokensForControlTokens) {
  GgufTokenizer tokenizer = small_gguf();
  tokenizer.types[306] = 4;
  EXPECT_EQ(read(tokenizer).kinds[306], TokenKind::kControl);
}

TEST(GgufVocabulary, NotesAnAbsentSplitterAndRejectsAnother) {
  GgufTokenizer tokenizer = small_gguf();
  tokenizer.pre.clear();
  EXPECT_EQ(read(tokenizer).notes, (Notes{"no tokenizer.ggml.pre: text is split as for 'kimi-k2'"}));
  tokenizer.pre = "llama-bpe";
  EXPECT_EQ(gguf_error(tokenizer, ErrorCode::kUnsupported),
            "small.gguf: tokenizer.ggml.pre is 'llama-bpe', expected 'kimi-k2'");
  tokenizer = small_gguf();
  tokenizer.model = "llama";
  EXPECT_EQ(gguf_error(tokenizer, ErrorCode::kUnsupported),
            "small.gguf: tokenizer.ggml.model is 'llama', expected 'gpt2'");
}

TEST(GgufVocabulary, RejectsBrokenTables) {
  GgufTokenizer tokenizer = small_gguf();
  tokenizer.model.clear();
  EXPECT_EQ(gguf_error(tokenizer), "small.gguf: no tokenizer.ggml.model, expected 'gpt2'");
  tokenizer = small_gguf();
  tokenizer.tokens.clear();
  EXPECT_EQ(gguf_error(tokenizer), "small.gguf: no tokenizer.ggml.tokens");
  tokenizer = small_gguf();
  tokenizer.types.clear();
  EXPECT_EQ(gguf_error(tokenizer), "small.gguf: no tokenizer.ggml.token_type");
  tokenizer = small_gguf();
  tokenizer.types.pop_back();
  EXPECT_EQ(gguf_error(tokenizer), "small.gguf: 311 tokens and 310 token types, expected as many");
  tokenizer = small_gguf();
  tokenizer.types[7] = 6;
  EXPECT_EQ(gguf_error(tokenizer), "small.gguf: token 7 has type 6, expected 1 to 5");
  tokenizer = small_gguf();
  tokenizer.tokens[9] = "two words";
  EXPECT_EQ(gguf_error(tokenizer), "small.gguf: token 9 is not written in GPT-2's byte alphabet");
  for (const int64_t n_rows : {int64_t{-1}, int64_t{0}, int64_t{1} << 40}) {
    EXPECT_NE(error_of([&] { (void)read(small_gguf(), n_rows); }, ErrorCode::kLimit), "accepted");
  }
}

TEST(TiktokenFile, ReadsTokensByRank) {
  EXPECT_EQ(parse_tiktoken("IQ== 0\nIg== 1\nYWI= 2\nYWJj 3\n", "f"),
            (std::vector<std::string>{"!", "\"", "ab", "abc"}));
  EXPECT_EQ(parse_tiktoken("Ig== 1\r\n\r\nIQ== 0", "f"), (std::vector<std::string>{"!", "\""}));
}

TEST(TiktokenFile, RejectsWhatIsNoSuchFile) {
  const auto message = [](std::string_view text) { return error_of([&] { (void)parse_tiktoken(text, "f"); }); };
  for (const char* line : {"IQ==", "IQ== ", " 0", "IQ== x", "IQ== -1", "IQ== 0 ", "IQ= 0", "I!== 0", "=Q== 0",
                           "IQ==  0", "IQ== 99999999999999999999999", "=== 0", "I=== 0"}) {
    EXPECT_EQ(message(std::string("IQ== 0\n") + line), "f: line 2 is not a token in base64, a space and its rank")
        << line;
  }
  EXPECT_EQ(message("IQ== 0\nIg== 0"), "f: rank 0 is there twice, expected every rank from 0 to 1 once");
  EXPECT_EQ(message("IQ== 0\nIg== 2"), "f: rank 2 is too high, expected every rank from 0 to 1 once");
  EXPECT_EQ(message("\n"), "f: the file holds no tokens");
  EXPECT_NE(message("version https://git-lfs.github.com/spec/v1\noid sha256:b6c4\nsize 2795286\n").find("Git LFS"),
            std::string::npos);
}

constexpr const char* kTinyTiktoken = "YQ== 0\nYg== 1\nYWI= 2\n";

Vocabulary tiny(std::optional<std::string_view> config, int64_t n_rows = 7) {
  return make_folder_vocabulary(kTinyTiktoken, config, n_rows, "folder");
}

TEST(FolderVocabulary, NamesSpecialTokensAndFillsTheRest) {
  const Vocabulary vocabulary = tiny(R"({"added_tokens_decoder": {"3": {"content": "[BOS]", "special": true},
      "5": {"content": "<|im_end|>"}}, "bos_token": "[BOS]", "eos_token": {"content": "<|im_end|>"},
      "pad_token": null})");
  EXPECT_EQ(vocabulary.bytes, (std::vector<std::string>{"a", "b", "ab", "[BOS]", "<|reserved_token_4|>", "<|im_end|>",
                                                        "<|reserved_token_6|>"}));
  for (size_t id = 0; id < 7; ++id) EXPECT_EQ(vocabulary.kinds[id], id < 3 ? TokenKind::kText : TokenKind::kControl);
  EXPECT_EQ(vocabulary.bos, 3);
  EXPECT_EQ(vocabulary.eos, 5);
  EXPECT_EQ(vocabulary.pad, std::nullopt);
  EXPECT_EQ(vocabulary.notes, Notes{});
}

TEST(FolderVocabulary, NotesWhatItLeavesOut) {
  EXPECT_EQ(tiny(std::nullopt).notes, (Notes{"no tokenizer_config.json: the special tokens have no names"}));
  EXPECT_EQ(tiny("{}").notes,
            (Notes{"tokenizer_config.json: no added_tokens_decoder: the special tokens have no names"}));
  EXPECT_EQ(tiny(R"({"added_tokens_decoder": {"0": {"content": "x"}, "7": {"content": "y"}, "3": {"content": "z"}},
                     "bos_token": "a", "eos_token": 5})")
                .notes,
            (Notes{"tokenizer_config.json: the name of token 0 is ignored: it is ordinary text",
                   "tokenizer_config.json: token 7 is left out: the embedding has 7 rows",
                   "tokenizer_config.json: bos_token is ignored: it names no special token",
                   "tokenizer_config.json: eos_token is ignored: it names no special token"}));
  EXPECT_EQ(tiny(R"({"added_tokens_decoder": {"3": {"content": "z"}}})", 2).notes,
            (Notes{"tiktoken.model: 3 tokens for 2 rows of the embedding: the last 1 are left out",
                   "tokenizer_config.json: token 3 is left out: the embedding has 2 rows"}));
}

TEST(FolderVocabulary, RejectsBrokenConfigs) {
  const auto message = [](std::string_view config) { return error_of([&] { (void)tiny(config); }); };
  EXPECT_EQ(message("[]"), "folder/tokenizer_config.json: not a JSON object");
  EXPECT_EQ(message(R"({"added_tokens_decoder": []})"),
            "folder/tokenizer_config.json: added_tokens_decoder is not an object");
  EXPECT_EQ(message(R"({"added_tokens_decoder": {"x": {"content": "y"}}})"),
            "folder/tokenizer_config.json: added_tokens_decoder has the key 'x', expected a token id");
  EXPECT_EQ(message(R"({"added_tokens_decoder": {"3": {"content": 1}}})"),
            "folder/tokenizer_config.json: added token 3 has no text \"content\"");
  EXPECT_EQ(message(R"({"added_tokens_decoder": {"3": "y"}})"),
            "folder/tokenizer_config.json: added token 3 has no text \"content\"");
  EXPECT_EQ(message(R"({"added_tokens_decoder": {"3": {"content": "y"}, "4": {"content": "y"}}})"),
            "folder/tokenizer_config.json: tokens 3 and 4 have the same name 'y'");
  EXPECT_NE(message("{"), "accepted");
}

TEST(FolderVocabulary, ReadsAFolderAndNamesAMissingFile) {
  const auto folder = std::filesystem::temp_directory_path() / "kda_folder_vocabulary_test";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / "tiktoken.model");
  EXPECT_EQ(error_of([&] { (void)read_folder_vocabulary(folder.string(), 7); }, ErrorCode::kNotFound),
            folder.string() + ": there is no tiktoken.model in this folder, expected a model of the Kimi family");
  std::ofstream(folder / "tiktoken.model") << kTinyTiktoken;
  std::ofstream(folder / "tokenizer_config.json") << R"({"added_tokens_decoder": {"3": {"content": "[BOS]"}}})";
  EXPECT_EQ(read_folder_vocabulary(folder.string(), 4).bytes, (std::vector<std::string>{"a", "b", "ab", "[BOS]"}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kda
