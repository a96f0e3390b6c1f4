// Types by name of tensor, as users give them: --tensor-type REGEX=TYPE, and files of such lines.
#pragma once

#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "quant/tensor_type.h"

namespace kda {

struct TypeRule {
  std::string text;    // as it was given, for messages
  std::regex pattern;  // ECMAScript; found anywhere in the name
  TensorType type = TensorType::kF32;
};

/// "REGEX=TYPE", spaces around either part ignored; the last '=' counts. Throws Error(kUsage) for another form, a
/// regular expression that is none, or a type that cannot be written. `subject` begins the message.
[[nodiscard]] TypeRule parse_type_rule(std::string_view text, const std::string& subject);

/// A recipe file: a rule a line; empty lines and what follows a '#' at the start of a line or after a space are
/// ignored. Throws Error as read_text_file, and as parse_type_rule with file and line.
[[nodiscard]] std::vector<TypeRule> read_type_rules(const std::filesystem::path& path);

}  // namespace kda
