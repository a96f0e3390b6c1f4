// A chat template: parsed once, rendered for every conversation.
#pragma once

#include <memory>
#include <string_view>

#include "chat/jinja/value.h"

namespace kda::jinja {

/// Jinja as transformers sets it up for chat templates: trim_blocks, lstrip_blocks, break and continue, the generation
/// tag. Immutable, thread-safe.
class Template {
 public:
  /// Throws Error with the line: kUnsupported for what the engine does not know, kFormat for what is not a template.
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;

  /// Variables are by name. Throws Error with the line: kUsage when the template refuses (raise_exception), kFormat for
  /// an operation that fails, kLimit, and kUnsupported.
  [[nodiscard]] Text render(Context& context, const Dict& variables) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kda::jinja
