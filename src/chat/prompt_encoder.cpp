#include "chat/prompt_encoder.h"

#include <algorithm>
#include <functional>

namespace kda {

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  for (size_t id = 0; id < vocabulary.bytes.size(); ++id) {
    const std::string& name = vocabulary.bytes[id];
    if (vocabulary.kinds[id] != TokenKind::kControl || name.empty()) continue;
    name_lengths_.push_back(name.size());
    first_bytes_.set(static_cast<unsigned char>(name[0]));
  }
  std::sort(name_lengths_.begin(), name_lengths_.end(), std::greater<>());
  name_lengths_.erase(std::unique(name_lengths_.begin(), name_lengths_.end()), name_lengths_.end());
}

std::optional<PromptEncoder::Name> PromptEncoder::longest_name_at(std::string_view text) const {
  if (!first_bytes_[static_cast<unsigned char>(text[0])]) return std::nullopt;
  for (const size_t n_bytes : name_lengths_) {
    if (n_bytes > text.size()) continue;
    if (const auto id = tokenizer_.find_special(text.substr(0, n_bytes))) return Name{*id, n_bytes};
  }
  return std::nullopt;
}

RenderedPrompt PromptEncoder::encode(const jinja::Text& text) const {
  RenderedPrompt prompt;
  prompt.text = text.bytes();
  const std::string_view bytes = prompt.text;
  size_t encoded = 0;  // bytes before this one are in ids
  size_t run_begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    for (size_t pos = run_begin; run.from_template && pos < run.end;) {
      const auto name = longest_name_at(bytes.substr(pos, run.end - pos));
      if (!name) {
        ++pos;
        continue;
      }
      tokenizer_.encode_append(bytes.substr(encoded, pos - encoded), false, prompt.ids);
      prompt.ids.push_back(name->id);
      if (tokenizer_.is_end(name->id)) prompt.borders.push_back(static_cast<int64_t>(prompt.ids.size()));
      pos += name->n_bytes;
      encoded = pos;
    }
    run_begin = run.end;
  }
  tokenizer_.encode_append(bytes.substr(encoded), false, prompt.ids);
  return prompt;
}

}  // namespace kda
