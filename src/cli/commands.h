// The subcommands, one file each. Every add_NAME defines the subcommand on `root` and, when it was chosen, sets
// `chosen`.
#pragma once

#include "cli/options.h"

namespace kda::cli {

void add_run(CLI::App& root, Action& chosen);
void add_chat(CLI::App& root, Action& chosen);
void add_inspect(CLI::App& root, Action& chosen);
void add_tokenize(CLI::App& root, Action& chosen);
void add_logits(CLI::App& root, Action& chosen);
void add_imatrix(CLI::App& root, Action& chosen);
void add_perplexity(CLI::App& root, Action& chosen);
void add_compare(CLI::App& root, Action& chosen);
void add_bench(CLI::App& root, Action& chosen);
void add_convert(CLI::App& root, Action& chosen);
void add_quantize(CLI::App& root, Action& chosen);
void add_split(CLI::App& root, Action& chosen);
void add_merge(CLI::App& root, Action& chosen);
void add_version(CLI::App& root, Action& chosen);

/// Parses the command line and runs what it asks for. Everything that goes wrong ends as one sentence on standard error
/// and an exit status: 0 done, 1 error, 2 wrong use, 130 interrupted, 141 nobody reads the output.
[[nodiscard]] int run_program(int argc, const char* const* argv) noexcept;

}  // namespace kda::cli
