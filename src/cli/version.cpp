#include <fmt/format.h>

#include "base/cpu_features.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "kernels/kernel_table.h"

namespace kda::cli {

namespace {

constexpr std::string_view kCompiler =
#if defined(__clang__)
    "Clang " __clang_version__;
#else
    "GCC " __VERSION__;
#endif

int print_version() {
  const std::string found = cpu_features_text();
  const KernelTable& kernels = select_kernels(environment("KDA_ISA").c_str());
  write_output(fmt::format("kda {}\ncompiler: {}\nbuild type: {}\ninstruction sets: {} found, {} used\nlicence: MIT\n",
                           KDA_VERSION, kCompiler, KDA_BUILD_TYPE, found.empty() ? "none beyond the baseline" : found,
                           kernels.name));
  return 0;
}

}  // namespace

void add_version(CLI::App& root, Action& chosen) {
  CLI::App& command =
      add_subcommand(root, "version", "Print version, compiler, instruction sets and licence", "  kda version");
  command.callback([&chosen] { chosen = print_version; });
}

}  // namespace kda::cli
