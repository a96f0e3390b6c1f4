#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/parse_bytes.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "convert/conversion.h"
#include "quant/codec.h"

namespace kda::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLlamaRecipe = "llama.cpp";

struct ConvertArgs {
  std::string source, out, type = "q4_k_m";
  std::string recipe, importance;
  std::vector<std::string> tensor_types;
  bool pure = false;
  bool allow_requantize = false;
  bool dry_run = false;
  std::string split_max_size;
  SplitOptions split;
  WriteOptions write;
  bool quiet = false;
};

/// The rules of the recipe file come first, so that the command line wins.
TypeOptions type_options(const ConvertArgs& args) {
  TypeOptions out;
  out.type = args.type;
  out.allow_requantize = args.allow_requantize;
  out.importance = args.importance;
  if (args.pure) out.recipe = Recipe::kPure;
  if (args.recipe == kLlamaRecipe) {
    out.recipe = Recipe::kLlamaCpp;
  } else if (!args.recipe.empty()) {
    out.rules = read_type_rules(args.recipe);
  }
  for (const std::string& rule : args.tensor_types) out.rules.push_back(parse_type_rule(rule, "--tensor-type"));
  return out;
}

double bits_per_weight(int64_t bytes, int64_t n) { return 8.0 * static_cast<double>(bytes) / static_cast<double>(n); }

/// What --dry-run prints.
std::string plan_text(const Conversion& conversion, const std::vector<fs::path>& files) {
  const std::vector<PlannedTensor>& tensors = conversion.tensors();
  size_t width = 6;
  for (const PlannedTensor& tensor : tensors) width = std::max(width, terminal_safe(tensor.name).size());
  std::string out = fmt::format("{:<{}}  {:<22} {:<8} {:<8} {:>14}\n", "tensor", width, "shape", "from", "to", "bytes");
  struct Total {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<TensorType, Total> totals;
  for (const PlannedTensor& tensor : tensors) {
    out += fmt::format("{:<{}}  {:<22} {:<8} {:<8} {:>14}\n", terminal_safe(tensor.name), width,
                       fmt::format("{{{}}}", fmt::join(tensor.ne, ", ")), type_info(tensor.source.type).name,
                       type_info(tensor.type).name, tensor.bytes());
    Total& total = totals[tensor.type];
    ++total.tensors;
    total.elements += tensor.n_elements();
    total.bytes += tensor.bytes();
  }
  out += fmt::format("\n{:<10}{:>8}{:>16}{:>18}{:>14}\n", "type", "tensors", "weights", "bytes", "bits/weight");
  const auto add = [&](std::string_view name, const Total& total) {
    out += fmt::format("{:<10}{:>8}{:>16}{:>18}{:>14.3f}\n", name, total.tensors, total.elements, total.bytes,
                       bits_per_weight(total.bytes, total.elements));
  };
  Total all;
  for (const auto& [type, total] : totals) {
    add(type_info(type).name, total);
    all.tensors += total.tensors;
    all.elements += total.elements;
    all.bytes += total.bytes;
  }
  add("all", all);
  out += '\n';
  for (const fs::path& file : files) out += terminal_safe(file.string()) + '\n';
  return out;
}

/// Writes the files, or with --dry-run says what would be written.
int write_files(const Conversion& conversion, const fs::path& out, const ConvertArgs& args, const char* label) {
  const std::vector<fs::path> files = conversion.output_paths(out, args.split);
  if (args.dry_run) {
    write_output(plan_text(conversion, files));
    return 0;
  }
  install_interrupt_handler(2);
  Progress progress(label, !args.quiet, true);
  try {
    conversion.write(out, args.split, args.write, [&](int64_t done, int64_t total) {
      progress.update(done, total);
      return !interrupted();
    });
  } catch (const Error& e) {
    progress.clear();
    const bool unfinished = e.code() == ErrorCode::kInterrupted || e.code() == ErrorCode::kIo;
    if (std::error_code ignored;
        unfinished && !args.quiet && fs::exists(files.front().string() + ".partial", ignored)) {
      write_note(
          fmt::format("kda: the unfinished work is in {}.partial: the same command with --resume goes on from there",
                      one_line(files.front().string())));
    }
    throw;
  }
  progress.clear();
  if (args.quiet) return 0;
  const int64_t bytes = total_bytes(conversion.tensors());
  write_note(fmt::format("{}{}: {} of weights, {:.2f} bits a weight{}", one_line(files.front().string()),
                         files.size() > 1 ? fmt::format(" and {} more", files.size() - 1) : "", human_bytes(bytes),
                         bits_per_weight(bytes, total_elements(conversion.tensors())),
                         args.write.check ? ", read back and compared" : ""));
  return 0;
}

void read_split_size(ConvertArgs& args) {
  if (!args.split_max_size.empty()) args.split.max_bytes = parse_bytes(args.split_max_size, "--split-max-size");
}

int convert(ConvertArgs args) {
  read_split_size(args);
  const TypeOptions types = type_options(args);
  const Conversion conversion = Conversion::to_types(locate_model(args.source, environment), types);
  if (!args.quiet) {
    for (const std::string& note : conversion.notes()) write_warning(note);
  }
  std::string out = args.out.empty() ? conversion.default_file_name() : args.out;
  constexpr std::string_view kTypeMark = "{type}";
  if (const size_t at = out.find(kTypeMark); at != std::string::npos) {
    out.replace(at, kTypeMark.size(), find_quant_preset(args.type).name);
  }
  return write_files(conversion, out, args, "converting");
}

int rewrite(ConvertArgs args, const char* label) {
  read_split_size(args);
  const ModelLocation source = locate_model(args.source, environment);
  if (source.kind != ModelKind::kGguf) {
    fail(ErrorCode::kUsage, "{}: expected a GGUF file, found a folder", args.source);
  }
  return write_files(Conversion::copy(source.path), args.out, args, label);
}

void add_write_options(CLI::App& command, ConvertArgs& args) {
  command.add_flag("--dry-run", args.dry_run, "Print what would be written, and write nothing");
  command.add_flag("--check", args.write.check, "Read the result back and compare checksums before it gets its name");
  command.add_flag("--resume", args.write.resume, "Go on where an interrupted run of the same command stopped");
  args.write.n_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("--threads,-t", args.write.n_threads, "Threads to compute with (default: one a processor)")
      ->check(in_range(1, 1024))
      ->type_name("N");
  command.add_flag("--quiet,-q", args.quiet, "No progress and no warnings");
  args.write.identity = KDA_VERSION;
}

void add_type_options(CLI::App& command, ConvertArgs& args) {
  CLI::Option* pure = command.add_flag("--pure", args.pure, "The same type for every matrix");
  command
      .add_option("--recipe", args.recipe,
                  "How types are mixed: llama.cpp, or a file of lines REGEX = TYPE (default: kda's own mix)")
      ->type_name("FILE")
      ->excludes(pure);
  command
      .add_option("--tensor-type", args.tensor_types,
                  "Type of the tensors whose names match; may be given several times, the last that matches wins")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("REGEX=TYPE");
  command.add_option("--imatrix", args.importance, "Importance matrix: which columns of the weights count how much")
      ->type_name("FILE");
}

CLI::Option* add_split_size(CLI::App& command, ConvertArgs& args) {
  return command
      .add_option("--split-max-size", args.split_max_size, "Start another file after this many bytes of tensors")
      ->type_name("N[K|M|G]");
}

std::string list_types() {
  std::string out;
  for (const QuantPreset& preset : quant_presets()) {
    if (!can_quantize(preset.base)) continue;
    if (!out.empty()) out += out.size() - (out.rfind('\n') + 1) > 60 ? "\n  " : " ";
    for (const char c : preset.name) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return "Types:\n  " + out;
}

}  // namespace

void add_convert(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "convert", "Make a GGUF file of a model, in any type",
                                     "  kda convert moonshotai/Kimi-Linear-48B-A3B-Instruct --type q4_k_m\n"
                                     "  kda convert FOLDER -o 'out/model-{type}.gguf' --type q8_0 --check\n"
                                     "  kda convert FOLDER --dry-run --tensor-type 'ffn_down_exps=q5_k'\n" +
                                         list_types());
  const auto args = std::make_shared<ConvertArgs>();
  add_model_argument(command, args->source);
  command
      .add_option("--output,-o", args->out,
                  "Where it goes; {type} stands for the type (default: NAME-TYPE.gguf in this folder)")
      ->type_name("FILE.gguf");
  command.add_option("--type", args->type, "Type of the file (default: q4_k_m)")->type_name("TYPE");
  add_type_options(command, *args);
  add_split_size(command, *args);
  command.add_flag("--allow-requantize", args->allow_requantize, "Take weights that are quantised already");
  add_write_options(command, *args);
  command.callback([&chosen, args] { chosen = [args] { return convert(*args); }; });
}

void add_quantize(CLI::App& root, Action& chosen) {
  CLI::App& command =
      add_subcommand(root, "quantize", "Make a GGUF file of another, in another type",
                     "  kda quantize model-BF16.gguf model-Q4_K_M.gguf q4_k_m\n"
                     "  kda quantize model-BF16-00001-of-00003.gguf model-Q6_K.gguf q6_k --keep-split\n" +
                         list_types());
  const auto args = std::make_shared<ConvertArgs>();
  command.add_option("IN", args->source, "GGUF file, the first of a split set")->required();
  command.add_option("OUT", args->out, "Where it goes; {type} stands for the type")->required();
  command.add_option("TYPE", args->type, "Type of the file")->required();
  add_type_options(command, *args);
  CLI::Option* size = add_split_size(command, *args);
  command.add_flag("--keep-split", args->split.keep, "As many files as the input, with the same tensors")
      ->excludes(size);
  command.add_flag("--allow-requantize", args->allow_requantize, "Take weights that are quantised already");
  add_write_options(command, *args);
  command.callback([&chosen, args] {
    chosen = [args] {
      if (locate_model(args->source, environment).kind != ModelKind::kGguf) {
        fail(ErrorCode::kUsage, "{}: expected a GGUF file, found a folder: use kda convert", args->source);
      }
      return convert(*args);
    };
  });
}

void add_split(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "split", "Cut a GGUF file into parts",
                                     "  kda split model.gguf part.gguf --split-max-size 4G\n"
                                     "gives part-00001-of-0000N.gguf and so on.");
  const auto args = std::make_shared<ConvertArgs>();
  command.add_option("IN", args->source, "GGUF file, or the first of a split set")->required();
  command.add_option("OUT", args->out, "Name that the parts' names are made of")->required();
  CLI::Option* size = add_split_size(command, *args);
  CLI::Option* count =
      command.add_option("--split-max-tensors", args->split.max_tensors, "Tensors in a file at most (default: 128)")
          ->check(in_range(1, 1 << 20))
          ->type_name("N");
  add_write_options(command, *args);
  command.callback([&chosen, args, size, count] {
    if (size->count() == 0 && count->count() == 0) args->split.max_tensors = 128;
    chosen = [args] { return rewrite(*args, "splitting"); };
  });
}

void add_merge(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "merge", "Join the parts of a split GGUF model",
                                     "  kda merge model-00001-of-00003.gguf model.gguf");
  const auto args = std::make_shared<ConvertArgs>();
  command.add_option("IN", args->source, "The first part")->required();
  command.add_option("OUT", args->out, "Where it goes")->required();
  add_write_options(command, *args);
  command.callback([&chosen, args] { chosen = [args] { return rewrite(*args, "merging"); }; });
}

}  // namespace kda::cli
