#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/text.h"
#include "engine/open_tokenizer.h"
#include "formats/hub.h"
#include "formats/json.h"
#include "tokenizer/tokenizer.h"

namespace kda::cli {

namespace {

constexpr size_t kWriteBytes = 65536;

struct TokenizeArgs {
  std::string model;
  std::string text;
  bool text_given = false;
  bool special = false;
  bool ids = false;
  bool json = false;
};

std::vector<int32_t> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " ,\t\r\n[]";
  std::vector<int32_t> out;
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end || id < 0) {
      fail(ErrorCode::kUsage, "--ids: expected token ids, found {}",
           quote(text.substr(at, std::min<size_t>(end - at, 40))));
    }
    out.push_back(id);
    at = text.find_first_not_of(kBetween, end);
  }
  return out;
}

/// Text as it is; bytes that are no whole UTF-8 characters as a list of numbers.
OrderedJson piece_json(std::string_view piece) {
  if (is_utf8(piece)) return OrderedJson(piece);
  OrderedJson out = OrderedJson::array();
  for (const char c : piece) out.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return out;
}

int tokenize(const TokenizeArgs& args) {
  if (!args.text_given && isatty(STDIN_FILENO) != 0) {
    fail(ErrorCode::kUsage, "no text: give one as TEXT or on standard input");
  }
  const std::string text = args.text_given ? args.text : read_input();
  const std::unique_ptr<Tokenizer> opened = open_tokenizer(locate_model(args.model, environment));
  const Tokenizer& tokenizer = *opened;
  const std::vector<int32_t> ids = args.ids ? parse_ids(text) : tokenizer.encode(text, args.special);
  if (args.ids && !args.json) {
    std::string decoded = tokenizer.decode(ids, args.special);
    if (isatty(STDOUT_FILENO) != 0) decoded = terminal_safe(decoded) + '\n';
    write_output(decoded);
    return 0;
  }
  if (args.json) {
    OrderedJson out;
    out["ids"] = ids;
    out["pieces"] = OrderedJson::array();
    for (const int32_t id : ids) out["pieces"].push_back(piece_json(tokenizer.piece(id)));
    write_output(json_text(out) + '\n');
    return 0;
  }
  std::string lines;
  for (const int32_t id : ids) {
    const std::string_view piece = tokenizer.piece(id);
    lines += fmt::format("{}\t{}\n", id, tokenizer.kind(id) == TokenKind::kText ? quote(piece) : terminal_safe(piece));
    if (lines.size() < kWriteBytes) continue;
    write_output(lines);
    lines.clear();
  }
  write_output(lines);
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "tokenize", "Turn text into token ids, or back",
                                     "  kda tokenize MODEL \"Hello world\"\n"
                                     "  kda tokenize MODEL --json < text.txt\n"
                                     "  kda tokenize MODEL --ids \"9906 1917\"\n"
                                     "One line a token: id, tab, text in quotes; control tokens stand without quotes.\n"
                                     "In JSON a piece that is not whole characters is a list of its bytes.");
  const auto args = std::make_shared<TokenizeArgs>();
  add_model_argument(command, args->model);
  CLI::Option* text = command.add_option("TEXT", args->text, "The text (none: standard input)");
  command.add_flag("--special", args->special, "Names of control tokens stand for these tokens, both ways");
  command.add_flag("--ids", args->ids, "TEXT holds ids, with spaces or commas between; print what they say");
  command.add_flag("--json", args->json, "One object with ids and pieces");
  command.callback([&chosen, args, text] {
    args->text_given = text->count() > 0;
    chosen = [args] { return tokenize(*args); };
  });
}

}  // namespace kda::cli
