// Any bytes as text, as tiktoken.model, as tokenizer_config.json and as the vocabulary of a GGUF file. The first byte
// says which.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "tokenizer/folder_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace {

constexpr const char* kWords[] = {" t",  "he", " the", "in", "th", "the", "aa", "aaaa", "ab",           "bc",
                                  "abc", "  ", "\n\n", "'s", "<|", "|>",  "im", "12",   "\xE4\xB8\xAD", "\xF0\x9F"};

/// The single bytes from high to low, some words, some special tokens.
kda::Vocabulary small_vocabulary() {
  kda::Vocabulary vocabulary;
  for (int byte = 255; byte >= 0; --byte) vocabulary.bytes.emplace_back(1, static_cast<char>(byte));
  vocabulary.bytes.insert(vocabulary.bytes.end(), std::begin(kWords), std::end(kWords));
  vocabulary.kinds.assign(vocabulary.bytes.size(), kda::TokenKind::kText);
  for (const char* name : {"[BOS]", "[EOS]", "<|im_end|>", "<|im_end|>!", "<", "\xFF\xFE"}) {
    vocabulary.bytes.emplace_back(name);
    vocabulary.kinds.push_back(kda::TokenKind::kControl);
  }
  return vocabulary;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void encode_and_decode(const kda::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> plain = tokenizer.encode(text);
  for (const int32_t id : plain) require(tokenizer.kind(id) == kda::TokenKind::kText);
  require(tokenizer.decode(plain) == text);
  require(tokenizer.decode(tokenizer.encode(text, true), true) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const kda::Tokenizer kSmall{small_vocabulary()};
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
        encode_and_decode(kSmall, text);
        break;
      case 1:
        require(!kda::parse_tiktoken(text, "fuzz").empty());
        break;
      case 2: {
        // "a" and "b" as text, so that ids 2 to 15 are special.
        const kda::Vocabulary vocabulary = kda::make_folder_vocabulary("YQ== 0\nYg== 1\n", text, 16, "fuzz");
        require(vocabulary.bytes.size() == 16 && vocabulary.kinds.size() == 16);
        break;
      }
      default: {
        const auto file = kda::GgufFile::parse(std::as_bytes(std::span(text)), "fuzz");
        const kda::Tokenizer tokenizer(kda::read_gguf_vocabulary(file, 320));
        require(tokenizer.size() == 320);
        encode_and_decode(tokenizer, text);
      }
    }
  } catch (const kda::Error&) {
    // What a bad file should end in.
  }
  return 0;
}
