#include <fmt/format.h>

#include <exception>
#include <new>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/text.h"

namespace kda::cli {

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;
constexpr int kInterruptedStatus = 130;   // 128 + SIGINT, as shells report it
constexpr int kOutputClosedStatus = 141;  // 128 + SIGPIPE

int report(std::string_view message, int status) {
  write_note(fmt::format("kda: error: {}", one_line(message)));
  return status;
}

/// The subcommand that was being parsed, for the hint: "kda run".
std::string chosen_name(const CLI::App& root) {
  const auto chosen = root.get_subcommands();
  return chosen.empty() ? "kda" : "kda " + chosen.front()->get_name();
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App root("kda runs language models built on Kimi Delta Attention.", "kda");
  Action action;
  root.require_subcommand(1);
  root.get_formatter()->column_width(34);
  root.footer(
      "Examples:\n"
      "  kda run models/demo \"What is 27+15?\"     ask once\n"
      "  kda chat Kimi-Linear-48B-A3B-Q4_K_M.gguf  talk\n"
      "  kda bench models/demo                     measure its speed\n"
      "  kda inspect moonshotai/Kimi-Linear-48B-A3B-Instruct\n"
      "`kda COMMAND --help` tells more about a command.");
  root.set_version_flag("--version", "kda " KDA_VERSION, "Print the version and exit");
  add_run(root, action);
  add_chat(root, action);
  add_inspect(root, action);
  add_tokenize(root, action);
  add_logits(root, action);
  add_imatrix(root, action);
  add_perplexity(root, action);
  add_compare(root, action);
  add_bench(root, action);
  add_convert(root, action);
  add_quantize(root, action);
  add_split(root, action);
  add_merge(root, action);
  add_version(root, action);
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = root.get_subcommands();
    write_output(chosen.empty() ? root.help() : chosen.front()->help(root.get_name()));
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    write_output(root.help("", CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::CallForVersion& e) {
    write_output(std::string(e.what()) + '\n');
    return 0;
  } catch (const CLI::ParseError& e) {
    if (root.get_subcommands().empty() && argc > 1) {
      return report(
          fmt::format("'{}' is no command, expected run, chat, inspect, tokenize, logits, convert, quantize, split, "
                      "merge, imatrix, perplexity, compare, bench or version (see kda --help)",
                      argv[1]),
          kWrongUse);
    }
    return report(fmt::format("{} (see {} --help)", e.what(), chosen_name(root)), kWrongUse);
  }
  return action();
}

}  // namespace

int run_program(int argc, const char* const* argv) noexcept {
  try {
    try {
      return parse_and_run(argc, argv);
    } catch (const OutputClosed&) {
      return kOutputClosedStatus;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInterrupted) return kInterruptedStatus;
      return report(e.what(), e.code() == ErrorCode::kUsage ? kWrongUse : kFailed);
    } catch (const std::bad_alloc&) {
      return report("out of memory", kFailed);
    } catch (const std::exception& e) {
      return report(e.what(), kFailed);
    }
  } catch (...) {
    return kFailed;
  }
}

}  // namespace kda::cli
