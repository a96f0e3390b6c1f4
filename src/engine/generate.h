// The loop that turns a prompt into an answer: what the command line and the server share.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_format.h"
#include "engine/engine.h"
#include "sampler/sampler.h"

namespace kda {

enum class FinishReason : uint8_t {
  kStop,         // an end token or a stop string
  kLength,       // max_tokens, or the context is full
  kInterrupted,  // a callback said so
};

/// "stop", "length", "interrupted".
[[nodiscard]] std::string_view finish_reason_name(FinishReason reason) noexcept;

struct GenerateOptions {
  SamplerOptions sampling;
  int64_t max_tokens = -1;  // -1: until the model ends or the context is full
  std::vector<std::string> stop;
  bool ignore_eos = false;  // end tokens are never sampled
};

/// All may be empty. They are called on the caller's thread.
struct GenerateCallbacks {
  FeedProgress progress;                       // between batches of the prompt; false stops
  std::function<void(std::string_view)> text;  // whole characters, as soon as they are certain
  std::function<bool()> keep_going;            // asked before every token; false stops
};

struct Generation {
  std::string text;          // all that was given to the callback
  std::vector<int32_t> ids;  // sampled, without the end token
  FinishReason finish_reason = FinishReason::kStop;
  bool context_full = false;  // the reason for kLength
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, that the sequence held already
  int64_t steps = 0;          // tokens of the answer that went through the model
  int64_t guesses = 0;        // of tokens of the answer (see Sequence::feed_guessing), and how many came true
  int64_t right_guesses = 0;
  double prompt_ms = 0;  // for the prompt_tokens - cached_tokens that were computed
  double generation_ms = 0;

  [[nodiscard]] double prompt_tokens_per_second() const noexcept;
  [[nodiscard]] double generation_tokens_per_second() const noexcept;
};

/// Makes `sequence` hold `prompt` (see Sequence::sync for borders) and continues it token by token; where the engine
/// takes guesses, NgramDrafter makes them, which changes the time but no token. An interruption is a finish reason, not
/// an error; the sequence stays usable. Throws Error(kUsage) for bad options or an empty prompt, Error(kLimit) before
/// any work when the prompt is longer than the context, and what the sequence and sampler throw.
[[nodiscard]] Generation generate(Sequence& sequence, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                                  std::span<const int64_t> borders, const GenerateOptions& options,
                                  const GenerateCallbacks& callbacks);

/// Puts the ids that were sampled for earlier answers in place of those that encoding their text again gives, wherever
/// both stand for the same text, so that the sequence that sampled them is reused to the full. sampled[i] belongs to
/// messages[i] and is empty where there is none. Borders move with the ids.
void reuse_sampled_ids(RenderedPrompt& prompt, std::span<const ChatMessage> messages,
                       std::span<const std::vector<int32_t>> sampled, const Tokenizer& tokenizer);

}  // namespace kda
