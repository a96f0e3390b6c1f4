// What filters and methods have in common.
#pragma once

#include "chat/jinja/value.h"

namespace kda::jinja {

/// text without the characters at its ends that are spaces, or that occur in `characters`.
[[nodiscard]] Text stripped(Context& context, const Text& text, bool spaces, std::string_view characters, bool left,
                            bool right);

/// Lists of parts; at most n_max cuts when that is not negative. The separator is not empty.
[[nodiscard]] Value split_at(Context& context, const Text& text, std::string_view separator, int64_t n_max);
[[nodiscard]] Value split_at_spaces(Context& context, const Text& text, int64_t n_max);

/// text with `from` replaced, n_max times when that is not negative. Throws Error(kUnsupported) for an empty `from`.
[[nodiscard]] Text replace_all(Context& context, const Text& text, std::string_view from, const Text& to,
                               int64_t n_max);

// ASCII letters only: others keep their case.
[[nodiscard]] Text uppercase(Context& context, const Text& text);
[[nodiscard]] Text lowercase(Context& context, const Text& text);
[[nodiscard]] Text capitalized(Context& context, const Text& text);
/// The letters after a space, bracket or hyphen large, the others small, as by Jinja's filter.
[[nodiscard]] Text titlecase(Context& context, const Text& text);

/// A list of (key, value) tuples. The value must be a dict.
[[nodiscard]] Value items_of(Context& context, const Value& dict);

}  // namespace kda::jinja
