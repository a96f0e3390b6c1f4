// Runs a text through models and shows what they expected at every scored token.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/engine.h"
#include "measure/meters.h"
#include "measure/text_chunks.h"

namespace kda {

/// Called for the scored tokens in the order of the text, with the logits before each; the views end with the call.
using EachScored = std::function<void(const ScoredRow& row, int32_t next)>;

/// Feeds every chunk to the model. progress counts tokens. Throws as Sequence::feed_all_logits.
void score_text(const Engine& engine, const TextChunks& chunks, const EachScored& each, const FeedProgress& progress);

using EachCompared = std::function<void(const ScoredRow& base, const ScoredRow& row, int32_t next)>;

/// Feeds every chunk to both models, which have vocabularies of the same size. Holds at most 256 MiB of logits.
void score_text(const Engine& base, const Engine& engine, const TextChunks& chunks, const EachCompared& each,
                const FeedProgress& progress);

}  // namespace kda
