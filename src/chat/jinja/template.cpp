#include "chat/jinja/template.h"

#include "chat/jinja/interpreter.h"
#include "chat/jinja/parser.h"

namespace kda::jinja {

struct Template::Impl {
  Body body;
};

Template::Template(std::string_view source) : impl_(std::make_unique<Impl>()) { impl_->body = parse(source); }
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

Text Template::render(Context& context, const Dict& variables) const {
  return interpret(context, impl_->body, variables);
}

}  // namespace kda::jinja
