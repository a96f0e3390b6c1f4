#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "chat/text_stream.h"
#include "engine/ngram_drafter.h"
#include "tokenizer/tokenizer.h"

namespace kda {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double per_second(int64_t n, double ms) { return n > 0 && ms > 0 ? static_cast<double>(n) * 1000.0 / ms : 0.0; }

}  // namespace

std::string_view finish_reason_name(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kInterrupted:
      break;
  }
  return "interrupted";
}

double Generation::prompt_tokens_per_second() const noexcept {
  return per_second(prompt_tokens - cached_tokens, prompt_ms);
}

double Generation::generation_tokens_per_second() const noexcept { return per_second(steps, generation_ms); }

Generation generate(Sequence& sequence, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                    std::span<const int64_t> borders, const GenerateOptions& options,
                    const GenerateCallbacks& callbacks) {
  validate(options.sampling);
  if (options.max_tokens < -1) fail(ErrorCode::kUsage, "max_tokens: expected -1 or more, found {}", options.max_tokens);
  if (prompt.empty()) fail(ErrorCode::kUsage, "the prompt is empty");
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  if (prompt_tokens > sequence.context()) {
    fail(ErrorCode::kLimit, "the prompt has {} tokens, but the context holds {}", prompt_tokens, sequence.context());
  }

  Generation out;
  out.prompt_tokens = prompt_tokens;
  const Clock::time_point prompt_begin = Clock::now();
  try {
    out.cached_tokens = sequence.sync(prompt, borders, callbacks.progress);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kInterrupted) throw;
    out.finish_reason = FinishReason::kInterrupted;
    out.prompt_ms = ms_since(prompt_begin);
    return out;
  }
  out.prompt_ms = ms_since(prompt_begin);

  Sampler sampler(options.sampling, static_cast<int64_t>(sequence.logits().size()));
  if (options.ignore_eos) {
    for (const int32_t id : tokenizer.end_ids()) sampler.ban(id);
  }
  for (const int32_t id : prompt) sampler.accept(id);

  TextStream stream(options.stop);
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    out.text += text;
    if (callbacks.text) callbacks.text(text);
  };
  const Clock::time_point generation_begin = Clock::now();
  DraftedFeed drafted(sequence, prompt);
  for (;;) {
    if (options.max_tokens >= 0 && static_cast<int64_t>(out.ids.size()) >= options.max_tokens) {
      out.finish_reason = FinishReason::kLength;
      break;
    }
    if (callbacks.keep_going && !callbacks.keep_going()) {
      out.finish_reason = FinishReason::kInterrupted;
      break;
    }
    if (!out.ids.empty()) {  // the first token comes from the prompt's logits
      if (sequence.size() >= sequence.context()) {
        out.finish_reason = FinishReason::kLength;
        out.context_full = true;
        break;
      }
      drafted.feed(out.ids.back());
      ++out.steps;
    }
    const int32_t id = sampler.sample(sequence.logits());
    if (tokenizer.is_end(id)) {
      out.finish_reason = FinishReason::kStop;
      break;
    }
    sampler.accept(id);
    out.ids.push_back(id);
    if (tokenizer.kind(id) == TokenKind::kText) show(stream.push(tokenizer.piece(id)));
    if (stream.stopped()) {
      out.finish_reason = FinishReason::kStop;
      break;
    }
  }
  if (!stream.stopped()) show(stream.finish());
  out.guesses = drafted.n_guessed();
  out.right_guesses = drafted.n_right();
  out.generation_ms = ms_since(generation_begin);
  return out;
}

void reuse_sampled_ids(RenderedPrompt& prompt, std::span<const ChatMessage> messages,
                       std::span<const std::vector<int32_t>> sampled, const Tokenizer& tokenizer) {
  // Counted from the end: a template may put messages of its own in front.
  if (prompt.borders.size() < messages.size()) return;
  const size_t first_border = prompt.borders.size() - messages.size();
  for (size_t m = 0; m < messages.size(); ++m) {
    if (sampled[m].empty()) continue;
    const std::vector<int32_t> encoded = tokenizer.encode(messages[m].content);
    const auto end = static_cast<size_t>(prompt.borders[first_border + m]);
    if (encoded == sampled[m] || end < encoded.size() + 1 || end > prompt.ids.size()) continue;
    // The message ends with its text and one end token.
    const auto begin = prompt.ids.begin() + static_cast<std::ptrdiff_t>(end - 1 - encoded.size());
    if (!tokenizer.is_end(prompt.ids[end - 1]) || !std::equal(encoded.begin(), encoded.end(), begin)) continue;
    if (tokenizer.decode(sampled[m], true) != messages[m].content) continue;
    const auto at = prompt.ids.erase(begin, begin + static_cast<std::ptrdiff_t>(encoded.size()));
    prompt.ids.insert(at, sampled[m].begin(), sampled[m].end());
    const auto grown = static_cast<int64_t>(sampled[m].size()) - static_cast<int64_t>(encoded.size());
    for (size_t b = first_border + m; b < prompt.borders.size(); ++b) prompt.borders[b] += grown;
  }
}

}  // namespace kda
