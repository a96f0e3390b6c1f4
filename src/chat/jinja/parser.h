// Tokens -> tree.
#pragma once

#include <string_view>

#include "chat/jinja/ast.h"

namespace kda::jinja {

/// Parses a whole template, at most 1 MiB. Throws Error with the line: kUnsupported for tags, filters, tests and
/// methods that the engine does not know, kFormat for what is not a template.
[[nodiscard]] Body parse(std::string_view source);

}  // namespace kda::jinja
