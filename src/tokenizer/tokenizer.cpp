#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tokenizer/byte_pair_encoder.h"
#include "tokenizer/special_matcher.h"
#include "tokenizer/splitter.h"

namespace kda {
namespace {

// The tokens that end a turn or a text in this family; the same id has another name in another model.
constexpr std::string_view kEndNames[] = {"<|im_end|>", "[EOS]", "[EOT]", "<|end_of_msg|>"};

/// Text tokens must come first, since their ids are their ranks. Returns their number.
size_t count_text_tokens(const Vocabulary& vocabulary) {
  const auto& kinds = vocabulary.kinds;
  if (vocabulary.bytes.size() != kinds.size() || kinds.size() > std::numeric_limits<int32_t>::max()) {
    fail(ErrorCode::kFormat, "vocabulary: {} tokens and {} kinds, expected as many, and less than 2^31",
         vocabulary.bytes.size(), kinds.size());
  }
  const auto first_other = std::find_if(kinds.begin(), kinds.end(), [](TokenKind k) { return k != TokenKind::kText; });
  const auto late_text = std::find(first_other, kinds.end(), TokenKind::kText);
  if (late_text != kinds.end()) {
    fail(ErrorCode::kFormat,
         "vocabulary: token {} is text but comes after token {}, which is not; text must come first",
         late_text - kinds.begin(), first_other - kinds.begin());
  }
  return static_cast<size_t>(first_other - kinds.begin());
}

std::vector<std::pair<std::string_view, int32_t>> control_names(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> names;
  for (size_t id = 0; id < vocabulary.kinds.size(); ++id) {
    if (vocabulary.kinds[id] == TokenKind::kControl) {
      names.emplace_back(vocabulary.bytes[id], static_cast<int32_t>(id));
    }
  }
  return names;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(Vocabulary v)
      : vocabulary(std::move(v)),
        n_text(count_text_tokens(vocabulary)),
        encoder(std::span(vocabulary.bytes).first(n_text)),
        specials(control_names(vocabulary)) {
    const auto add_end = [this](std::optional<int32_t> id) {
      if (id && is_control(*id) && std::find(end_ids.begin(), end_ids.end(), *id) == end_ids.end()) {
        end_ids.push_back(*id);
      }
    };
    for (const std::string_view name : kEndNames) add_end(specials.find(name));
    add_end(vocabulary.eos);
    add_end(vocabulary.eot);
  }

  [[nodiscard]] bool is_control(int32_t id) const noexcept {
    return id >= 0 && static_cast<size_t>(id) < vocabulary.kinds.size() && vocabulary.kinds[id] == TokenKind::kControl;
  }

  void check(int32_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= vocabulary.bytes.size()) {
      fail(ErrorCode::kUsage, "tokenizer: token id {} is out of range, expected 0 to {}", id,
           static_cast<int64_t>(vocabulary.bytes.size()) - 1);
    }
  }

  void encode_text(std::string_view text, BytePairEncoder::Scratch& scratch, std::vector<int32_t>& out) const {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = piece_end(text, begin);
      encoder.encode_piece(text.substr(begin, end - begin), scratch, out);
      begin = end;
    }
  }

  Vocabulary vocabulary;
  size_t n_text;
  BytePairEncoder encoder;  // views the vocabulary's text tokens
  SpecialMatcher specials;  // views the vocabulary's control tokens
  std::vector<int32_t> end_ids;
};

Tokenizer::Tokenizer(Vocabulary vocabulary) : impl_(std::make_unique<Impl>(std::move(vocabulary))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool allow_special) const {
  std::vector<int32_t> ids;
  encode_append(text, allow_special, ids);
  return ids;
}

void Tokenizer::encode_append(std::string_view text, bool allow_special, std::vector<int32_t>& out) const {
  if (text.size() > kMaxTextBytes) {
    fail(ErrorCode::kLimit, "tokenizer: the text has {} bytes, expected at most {}", text.size(), kMaxTextBytes);
  }
  BytePairEncoder::Scratch scratch;
  size_t begin = 0;
  while (allow_special) {
    const auto match = impl_->specials.find_in(text, begin);
    if (!match) break;
    impl_->encode_text(text.substr(begin, match->begin - begin), scratch, out);
    out.push_back(match->id);
    begin = match->end;
  }
  impl_->encode_text(text.substr(begin), scratch, out);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool with_special) const {
  std::string text;
  for (const int32_t id : ids) {
    impl_->check(id);
    if (with_special || static_cast<size_t>(id) < impl_->n_text) text += impl_->vocabulary.bytes[id];
  }
  return text;
}

std::string_view Tokenizer::piece(int32_t id) const {
  impl_->check(id);
  return impl_->vocabulary.bytes[id];
}

TokenKind Tokenizer::kind(int32_t id) const {
  impl_->check(id);
  return impl_->vocabulary.kinds[id];
}

std::optional<int32_t> Tokenizer::find_special(std::string_view name) const { return impl_->specials.find(name); }

std::span<const int32_t> Tokenizer::end_ids() const noexcept { return impl_->end_ids; }

bool Tokenizer::is_end(int32_t id) const noexcept {
  return std::find(impl_->end_ids.begin(), impl_->end_ids.end(), id) != impl_->end_ids.end();
}

int32_t Tokenizer::size() const noexcept { return static_cast<int32_t>(impl_->vocabulary.bytes.size()); }

const Vocabulary& Tokenizer::vocabulary() const noexcept { return impl_->vocabulary; }

}  // namespace kda
