// Several sequences in one pass through the model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/engine.h"
#include "state/sequence_state.h"

namespace kda {

/// Shares the reading of the weights among sequences of one engine, each of which gets the bits that it gets alone.
/// Not thread-safe; no other pass of the engine may run at the same time.
class Batch {
 public:
  struct Item {
    Sequence* sequence = nullptr;
    std::span<const int32_t> ids;  // at least one
    std::string error = {};        // set by feed(): why this sequence stayed as it was; empty when all went well
    MlaForm mla_form = MlaForm::kAuto;
  };

  /// Takes memory for passes of up to max_tokens tokens of up to max_sequences sequences. Throws Error(kUsage) unless
  /// 1 <= max_sequences <= max_tokens, Error(kLimit) when the memory is not there.
  Batch(const Engine& engine, int64_t max_sequences, int64_t max_tokens);
  ~Batch();

  /// Appends ids to the sequence of each item; logits() of a sequence are those after its last id. A sequence that
  /// yields numbers that are not finite gets an error and keeps what it held (one of new_batch_sequence() is empty
  /// then), without an effect on the others.
  /// Throws before any work Error(kUsage) for too many items or tokens, no or the same sequence twice, or an id out of
  /// range, Error(kLimit) when ids do not fit the context. After another exception, sequences of new_batch_sequence()
  /// that took part must be cleared.
  void feed(std::span<Item> items);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda
