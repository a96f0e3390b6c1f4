// Runs a parsed template.
#pragma once

#include "chat/jinja/ast.h"

namespace kda::jinja {

/// The text of a template for these variables. Throws as Template::render does.
[[nodiscard]] Text interpret(Context& context, const Body& body, const Dict& variables);

}  // namespace kda::jinja
