// Planned tensors, slice by slice, into the output: workers encode while the calling thread writes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "convert/gguf_output.h"
#include "convert/importance_matrix.h"
#include "convert/plan.h"

namespace kda {

/// Gets the bytes written so far (those of an earlier run included) and to be written; false stops the work.
using ConvertProgress = std::function<bool(int64_t done, int64_t total)>;

/// Encodes and writes every tensor that `output` does not have from an earlier run, in order. The bytes do not depend
/// on n_threads. Memory: a few slices of 2^18 values (or one row, where rows to be encoded are longer) a thread,
/// whatever the size of the tensors. importance: what columns weigh, or nullptr. Throws what RowEncoder and GgufOutput
/// throw, Error(kInterrupted) when progress says so.
void write_tensors(std::span<const PlannedTensor> tensors, const ImportanceMatrix* importance, GgufOutput& output,
                   int n_threads, const ConvertProgress& progress);

}  // namespace kda
