// GPT-2's way to write bytes as printable characters, used for the tokens of GGUF files: printable Latin-1 stands for
// itself, the other 68 bytes in order for U+0100 and up (model-spec 6.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kda {

/// Bytes as UTF-8 text.
[[nodiscard]] std::string encode_byte_alphabet(std::string_view bytes);

/// The bytes that the text stands for; nullopt when a character is not of this alphabet.
[[nodiscard]] std::optional<std::string> decode_byte_alphabet(std::string_view text);

}  // namespace kda
