// Kimi's byte-pair tokenizer: text <-> token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

/// What a token id stands for.
enum class TokenKind : uint8_t {
  kText,     // bytes of text
  kControl,  // a special token: written by templates, never by user text
  kUnused,   // a placeholder: never written, gives no text
};

struct Vocabulary {
  std::vector<std::string> bytes;  // by id: the text's bytes, or the literal name of a control token
  std::vector<TokenKind> kinds;    // by id
  std::optional<int32_t> bos, eos, eot, pad;
  bool add_bos = false;            // plain text begins with bos; no model of the family published so far asks for it
  std::vector<std::string> notes;  // odd things found while reading, for people
};

class GgufFile;

/// From tokenizer.ggml.* keys (model-spec 6.5). n_rows is the number of rows of the embedding: surplus tokens are noted
/// and dropped, missing ones become placeholders. Special ids that make no sense (out of range, or a text token) are
/// noted and left out. Throws Error(kFormat | kUnsupported | kLimit).
[[nodiscard]] Vocabulary read_gguf_vocabulary(const GgufFile& file, int64_t n_rows);

/// From tiktoken.model and tokenizer_config.json of a Hugging Face folder (model-spec 6.1). `folder` as UTF-8 path.
/// bos/eos/pad ids come from the names in tokenizer_config.json where given; ids past the text tokens that it does not
/// name become "<|reserved_token_ID|>". Throws Error(kNotFound | kIo | kFormat | kLimit).
[[nodiscard]] Vocabulary read_folder_vocabulary(const std::string& folder, int64_t n_rows);

/// Immutable after construction; all members are thread-safe.
class Tokenizer {
 public:
  /// Longest text that encode takes at a time.
  static constexpr size_t kMaxTextBytes = size_t{1} << 31;

  /// Text tokens must be the ids 0..n-1 in order of rank with all 256 single bytes among them (any place); names of
  /// control tokens must differ. Throws Error(kFormat).
  explicit Tokenizer(Vocabulary vocabulary);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  /// Ids of text; any bytes are accepted, invalid UTF-8 too. With allow_special the names of control tokens in the text
  /// become those tokens (the leftmost first, of those the longest), otherwise they are text like any other and no
  /// control token comes out. Time linear in the text. Throws Error(kLimit) past kMaxTextBytes.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool allow_special = false) const;
  void encode_append(std::string_view text, bool allow_special, std::vector<int32_t>& out) const;

  /// Bytes of the ids one after the other; control and unused tokens give their names when with_special, else nothing.
  /// Throws Error(kUsage) for an id out of range.
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool with_special = false) const;

  /// Bytes of one token (the name of a control token). Throws Error(kUsage) for an id out of range.
  [[nodiscard]] std::string_view piece(int32_t id) const;
  [[nodiscard]] TokenKind kind(int32_t id) const;
  /// Id of a control token by its literal name ("<|im_end|>").
  [[nodiscard]] std::optional<int32_t> find_special(std::string_view name) const;
  /// Ids that end a generation: the family's end tokens by name, and the ids that the file calls eos and eot.
  [[nodiscard]] std::span<const int32_t> end_ids() const noexcept;
  [[nodiscard]] bool is_end(int32_t id) const noexcept;
  [[nodiscard]] int32_t size() const noexcept;
  [[nodiscard]] const Vocabulary& vocabulary() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
