#include "convert/type_rules.h"

#include <algorithm>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/json.h"
#include "quant/codec.h"

namespace kda {

namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxPatternBytes = 1000;  // std::regex recurses with the pattern

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::string_view without_comment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

}  // namespace

TypeRule parse_type_rule(std::string_view text, const std::string& subject) {
  const size_t equals = text.rfind('=');
  const std::string_view pattern = trim(text.substr(0, std::min(equals, text.size())));
  if (equals == std::string_view::npos || pattern.empty() || pattern.size() > kMaxPatternBytes) {
    fail(ErrorCode::kUsage, "{}: expected REGEX=TYPE with a regular expression of 1 to {} characters, found {}",
         subject, kMaxPatternBytes, quote(text));
  }
  const std::string_view name = trim(text.substr(equals + 1));
  const auto type = parse_tensor_type(name);
  if (!type || !type_info(*type).is_weight) {
    fail(ErrorCode::kUsage, "{}: {} is no type of weights, expected one as in q8_0, q4_k or bf16", subject,
         quote(name));
  }
  if (!can_quantize(*type)) {
    fail(ErrorCode::kUnsupported, "{}: this version reads {} but cannot write it", subject, type_info(*type).name);
  }
  try {
    return {std::string(trim(text)), std::regex(std::string(pattern), std::regex::ECMAScript | std::regex::optimize),
            *type};
  } catch (const std::regex_error& e) {
    fail(ErrorCode::kUsage, "{}: {} is no regular expression: {}", subject, quote(pattern), e.what());
  }
}

std::vector<TypeRule> read_type_rules(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  std::vector<TypeRule> rules;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view rule = trim(without_comment(line));
    if (!rule.empty()) rules.push_back(parse_type_rule(rule, fmt::format("{}: line {}", path.string(), number)));
  }
  return rules;
}

}  // namespace kda
