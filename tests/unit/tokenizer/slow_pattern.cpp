#include "slow_pattern.h"

#include <functional>
#include <limits>

namespace kda::test {
namespace {

using Text = std::span<const Symbol* const>;
using Next = std::function<bool(size_t)>;
/// Tries every way to match at a place, best first, until `next` accepts where it ended.
using Node = std::function<bool(Text, size_t, const Next&)>;
using Predicate = std::function<bool(const Symbol&)>;

Node one(Predicate predicate) {
  return [predicate](Text text, size_t at, const Next& next) {
    return at < text.size() && predicate(*text[at]) && next(at + 1);
  };
}

Node sequence(std::vector<Node> nodes) {
  return [nodes](Text text, size_t at, const Next& next) {
    std::function<bool(size_t, size_t)> from = [&](size_t i, size_t where) {
      if (i == nodes.size()) return next(where);
      return nodes[i](text, where, [&, i](size_t end) { return from(i + 1, end); });
    };
    return from(0, at);
  };
}

Node any_of(std::vector<Node> nodes) {
  return [nodes](Text text, size_t at, const Next& next) {
    for (const Node& node : nodes) {
      if (node(text, at, next)) return true;
    }
    return false;
  };
}

Node repeat(Node node, size_t least, size_t most = std::numeric_limits<size_t>::max()) {
  return [=](Text text, size_t at, const Next& next) {
    std::function<bool(size_t, size_t)> more = [&](size_t n, size_t where) {
      if (n < most && node(text, where, [&, n](size_t end) { return more(n + 1, end); })) return true;
      return n >= least && next(where);
    };
    return more(0, at);
  };
}

Node not_ahead(Node node) {
  return [node](Text text, size_t at, const Next& next) {
    return !node(text, at, [](size_t) { return true; }) && next(at);
  };
}

Node literal(std::string_view word) {
  std::vector<Node> nodes;
  for (const char c : word) {
    nodes.push_back(one([c](const Symbol& s) {
      if (s.bytes.size() == 1 && (s.bytes[0] == c || (c >= 'a' && s.bytes[0] == c - 'a' + 'A'))) return true;
      return c == 's' && s.bytes == "\u017F";
    }));
  }
  return sequence(nodes);
}

bool letter(const Symbol& s) { return s.category[0] == 'L'; }
bool number(const Symbol& s) { return s.category[0] == 'N'; }
bool newline(const Symbol& s) { return s.bytes == "\r" || s.bytes == "\n"; }
bool caseless(const Symbol& s) { return s.category == "Lm" || s.category == "Lo" || s.category[0] == 'M'; }

Node pattern() {
  const Node han = one([](const Symbol& s) { return s.han; });
  const Node prefix = one([](const Symbol& s) { return !newline(s) && !letter(s) && !number(s); });
  const Node upper =
      one([](const Symbol& s) { return (s.category == "Lu" || s.category == "Lt" || caseless(s)) && !s.han; });
  const Node lower = one([](const Symbol& s) { return (s.category == "Ll" || caseless(s)) && !s.han; });
  const Node white = one([](const Symbol& s) { return s.white; });
  const Node not_white = one([](const Symbol& s) { return !s.white; });
  const Node newlines = one(newline);
  const Node symbol = one([](const Symbol& s) { return !s.white && !letter(s) && !number(s); });
  const Node space = one([](const Symbol& s) { return s.bytes == " "; });
  const Node contraction = any_of(
      {literal("'s"), literal("'t"), literal("'re"), literal("'ve"), literal("'m"), literal("'ll"), literal("'d")});
  return any_of({
      repeat(han, 1),
      sequence({repeat(prefix, 0, 1), repeat(upper, 0), repeat(lower, 1), repeat(contraction, 0, 1)}),
      sequence({repeat(prefix, 0, 1), repeat(upper, 1), repeat(lower, 0), repeat(contraction, 0, 1)}),
      repeat(one(number), 1, 3),
      sequence({repeat(space, 0, 1), repeat(symbol, 1), repeat(newlines, 0)}),
      sequence({repeat(white, 0), repeat(newlines, 1)}),
      sequence({repeat(white, 1), not_ahead(not_white)}),
      repeat(white, 1),
  });
}

}  // namespace

std::vector<size_t> split_slowly(Text text) {
  static const Node kPattern = pattern();
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    kPattern(text, at, [&end](size_t where) {
      end = where;
      return true;
    });
    if (end == at) break;  // No match: the result is too short, and the test fails.
    ends.push_back(end);
    at = end;
  }
  return ends;
}

}  // namespace kda::test
