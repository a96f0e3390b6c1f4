// The tests after `is`, and comparisons.
#include <algorithm>
#include <array>

#include "chat/jinja/builtins.h"

namespace kda::jinja {
namespace {

struct TestEntry {
  std::string_view name;
  Test call;
};

void expect_no_arguments(Context& context, const Arguments& arguments) {
  (void)arguments.bind(context, "the test", 0, {});
}

template <Kind... kKinds>
bool kind_test(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, arguments);
  return (input.is(kKinds) || ...);
}

bool defined_test(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, arguments);
  return !input.is_undefined();
}

template <bool kValue>
bool exactly_test(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, arguments);
  return input.is(Kind::kBool) && input.as_bool() == kValue;
}

template <int64_t kRemainder>
bool parity_test(Context& context, const Value& input, const Arguments& arguments) {
  expect_no_arguments(context, arguments);
  if (!input.is_integral())
    context.fail(ErrorCode::kFormat, "odd or even: {} was given, expected an integer", input.kind_name());
  return (input.as_integer() & 1) == kRemainder;
}

const Value& other(Context& context, const Arguments& arguments) {
  return *arguments.bind(context, "the test", 1, {"other"})[0];
}

template <bool kEqual>
bool equal_test(Context& context, const Value& input, const Arguments& arguments) {
  return equal(context, input, other(context, arguments)) == kEqual;
}

bool less_test(Context& context, const Value& input, const Arguments& arguments) {
  return compare(context, input, other(context, arguments)) < 0;
}
bool less_or_equal_test(Context& context, const Value& input, const Arguments& arguments) {
  return compare(context, input, other(context, arguments)) <= 0;
}
bool greater_test(Context& context, const Value& input, const Arguments& arguments) {
  return compare(context, input, other(context, arguments)) > 0;
}
bool greater_or_equal_test(Context& context, const Value& input, const Arguments& arguments) {
  return compare(context, input, other(context, arguments)) >= 0;
}
bool in_test(Context& context, const Value& input, const Arguments& arguments) {
  return contains(context, other(context, arguments), input);
}

constexpr Test kStringTest = kind_test<Kind::kString>;
constexpr Test kSequenceTest = kind_test<Kind::kString, Kind::kList, Kind::kDict>;  // has a length and elements

constexpr std::array kTests{
    TestEntry{"defined", defined_test},
    TestEntry{"undefined", kind_test<Kind::kUndefined>},
    TestEntry{"none", kind_test<Kind::kNone>},
    TestEntry{"boolean", kind_test<Kind::kBool>},
    TestEntry{"true", exactly_test<true>},
    TestEntry{"false", exactly_test<false>},
    TestEntry{"integer", kind_test<Kind::kInt>},
    TestEntry{"float", kind_test<Kind::kFloat>},
    TestEntry{"number", kind_test<Kind::kBool, Kind::kInt, Kind::kFloat>},
    TestEntry{"string", kStringTest},
    TestEntry{"mapping", kind_test<Kind::kDict>},
    TestEntry{"sequence", kSequenceTest},
    TestEntry{"iterable", kind_test<Kind::kUndefined, Kind::kString, Kind::kList, Kind::kDict>},
    TestEntry{"callable", kind_test<Kind::kFunction>},
    TestEntry{"odd", parity_test<1>},
    TestEntry{"even", parity_test<0>},
    TestEntry{"eq", equal_test<true>},
    TestEntry{"equalto", equal_test<true>},
    TestEntry{"==", equal_test<true>},
    TestEntry{"ne", equal_test<false>},
    TestEntry{"!=", equal_test<false>},
    TestEntry{"lt", less_test},
    TestEntry{"lessthan", less_test},
    TestEntry{"<", less_test},
    TestEntry{"le", less_or_equal_test},
    TestEntry{"<=", less_or_equal_test},
    TestEntry{"gt", greater_test},
    TestEntry{"greaterthan", greater_test},
    TestEntry{">", greater_test},
    TestEntry{"ge", greater_or_equal_test},
    TestEntry{">=", greater_or_equal_test},
    TestEntry{"in", in_test},
};

}  // namespace

Test find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(), [&](const TestEntry& t) { return t.name == name; });
  return found == kTests.end() ? nullptr : found->call;
}

int compare(Context& context, const Value& a, const Value& b) {
  context.charge(1);
  if (a.is_integral() && b.is_integral()) return (a.as_integer() > b.as_integer()) - (a.as_integer() < b.as_integer());
  if (a.is_numeric() && b.is_numeric()) return (a.as_number() > b.as_number()) - (a.as_number() < b.as_number());
  if (a.is_string() && b.is_string()) {
    context.charge_bytes(std::min(a.as_text().size(), b.as_text().size()));
    return a.as_bytes().compare(b.as_bytes());
  }
  context.fail(ErrorCode::kFormat, "{} and {} have no order", a.kind_name(), b.kind_name());
}

bool contains(Context& context, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) break;
      context.charge_bytes(container.as_text().size() + item.as_text().size());
      return container.as_bytes().find(item.as_bytes()) != std::string::npos;
    case Kind::kList: {
      const auto& items = container.as_list().items;
      return std::any_of(items.begin(), items.end(), [&](const Value& x) { return equal(context, x, item); });
    }
    case Kind::kDict:
      return container.as_dict().find(item) != nullptr;
    default:
      break;
  }
  context.fail(ErrorCode::kFormat, "'in' between {} and {} is not possible", item.kind_name(), container.kind_name());
}

}  // namespace kda::jinja
