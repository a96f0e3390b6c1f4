// Filters, tests and methods by name.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

namespace kda::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Values for parameters in order, nullptr for those not given. Throws Error(kFormat) for an argument too many and
  /// when one of the first n_required is missing.
  [[nodiscard]] std::vector<const Value*> bind(Context& context, std::string_view callee, size_t n_required,
                                               std::initializer_list<std::string_view> parameters) const;
};

using Filter = Value (*)(Context&, const Value& input, const Arguments&);
using Test = bool (*)(Context&, const Value& input, const Arguments&);

/// nullptr for a name that the engine does not know.
[[nodiscard]] Filter find_filter(std::string_view name);
[[nodiscard]] Test find_test(std::string_view name);

/// True when some kind of value has a method of that name.
[[nodiscard]] bool is_method(std::string_view name);
/// True when this value has it.
[[nodiscard]] bool has_method(const Value& self, std::string_view name);
/// Needs has_method(self, name).
[[nodiscard]] Value call_method(Context& context, const Value& self, std::string_view name, const Arguments& arguments);

/// value.name and value[key] as templates see them; undefined when there is no such thing.
[[nodiscard]] Value attribute_of(Context& context, const Value& value, std::string_view name);
[[nodiscard]] Value item_of(Context& context, const Value& value, const Value& key);

/// The value's place among others: negative, 0, positive. Throws Error(kFormat) for kinds that have no order.
[[nodiscard]] int compare(Context& context, const Value& a, const Value& b);
/// item in container.
[[nodiscard]] bool contains(Context& context, const Value& container, const Value& item);

}  // namespace kda::jinja
