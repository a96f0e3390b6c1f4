#include "chat/jinja/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "chat/jinja/builtins.h"

namespace kda::jinja {

/// Variables of one level: the template, a macro's call, one turn of a loop, a set block.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;
  bool captured = false;  // a macro looks into it
};

namespace {

constexpr int64_t kMaxRange = 100'000;  // as in Jinja's sandbox

enum class Flow { kNormal, kBreak, kContinue };

/// The words that the expression stands for in a message.
std::string describe(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kName:
      return expr.name;
    case ExprKind::kAttribute:
      return describe(*expr.args[0]) + "." + expr.name;
    case ExprKind::kIndex:
      if (expr.args[1]->constant.is_string()) return describe(*expr.args[0]) + "." + expr.args[1]->constant.as_bytes();
      return describe(*expr.args[0]) + "[]";
    case ExprKind::kCall:
      return describe(*expr.args[0]) + "()";
    default:
      return "the expression";
  }
}

class Interpreter {
 public:
  Interpreter(Context& context, const Dict& variables) : context_(context), variables_(variables) {}

  Text run(const Body& body) {
    Text out;
    execute(body, new_scope(nullptr), out);
    context_.check_output(out.size());
    return out;
  }

 private:
  // --- scopes ---

  Scope& new_scope(Scope* parent) {
    context_.charge(4);
    Scope& scope = scopes_.emplace_back();
    scope.parent = parent;
    return scope;
  }

  static Value* find_variable(Scope& scope, std::string_view name) {
    for (auto& [key, value] : scope.variables) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  static void assign(Scope& scope, std::string_view name, Value value) {
    if (Value* variable = find_variable(scope, name))
      *variable = std::move(value);
    else
      scope.variables.emplace_back(name, std::move(value));
  }

  Value look_up(Scope* scope, std::string_view name) {
    for (; scope != nullptr; scope = scope->parent) {
      context_.charge(scope->variables.size() / 4);
      if (const Value* value = find_variable(*scope, name)) return *value;
    }
    if (const Value* value = variables_.find(name)) return *value;
    if (name == "range" || name == "namespace" || name == "raise_exception" || name == "dict")
      return context_.new_function({.name = std::string(name)});
    return {};
  }

  /// Gives targets of a set or for tag their values; several targets take the elements of one value.
  void assign_targets(Scope& scope, const std::vector<std::string>& targets, const Value& value) {
    if (targets.size() == 1) return assign(scope, targets[0], value);
    const std::vector<Value> elements = elements_of(context_, value);
    if (elements.size() != targets.size())
      context_.fail(ErrorCode::kFormat, "{} names cannot take {} values", targets.size(), elements.size());
    for (size_t i = 0; i < targets.size(); ++i) assign(scope, targets[i], elements[i]);
  }

  // --- statements ---

  Flow execute(const Body& body, Scope& scope, Text& out) {
    const Context::Level level(context_);
    for (const auto& stmt : body) {
      context_.set_line(stmt->line);
      context_.charge(1);
      const Flow flow = execute(*stmt, scope, out);
      if (flow != Flow::kNormal) return flow;
    }
    return Flow::kNormal;
  }

  Flow execute(const Stmt& stmt, Scope& scope, Text& out) {
    switch (stmt.kind) {
      case StmtKind::kData:
        write(stmt.data, out);
        break;
      case StmtKind::kPrint:
        write(to_text(context_, evaluate(*stmt.expr, scope)), out);
        break;
      case StmtKind::kIf:
        for (const auto& [condition, body] : stmt.branches) {
          if (truthy(evaluate(*condition, scope))) return execute(body, scope, out);
        }
        return execute(stmt.body, scope, out);
      case StmtKind::kFor:
        run_loop(stmt, scope, out);
        break;
      case StmtKind::kSet:
        assign_targets(scope, stmt.targets, evaluate(*stmt.expr, scope));
        break;
      case StmtKind::kSetAttribute: {
        Value value = evaluate(*stmt.expr, scope);
        const Value target = look_up(&scope, stmt.targets[0]);
        if (!target.is(Kind::kNamespace))
          context_.fail(ErrorCode::kFormat, "'{}' is {}, expected a namespace to set '{}' of", stmt.targets[0],
                        target.kind_name(), stmt.attribute);
        target.as_namespace().attributes.set(stmt.attribute, std::move(value));
        break;
      }
      case StmtKind::kSetBlock: {
        Text text;
        execute(stmt.body, new_scope(&scope), text);
        assign(scope, stmt.targets[0], Value::string(std::move(text)));
        break;
      }
      case StmtKind::kMacro: {
        for (Scope* s = &scope; s != nullptr; s = s->parent) s->captured = true;
        assign(scope, stmt.macro->name,
               context_.new_function({.name = stmt.macro->name, .macro = stmt.macro.get(), .scope = &scope}));
        break;
      }
      case StmtKind::kGroup:
        return execute(stmt.body, scope, out);
      case StmtKind::kBreak:
        return Flow::kBreak;
      case StmtKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNormal;
  }

  void write(const Text& text, Text& out) {
    context_.charge_bytes(text.size());
    out.append(text);
    context_.check_output(out.size());
  }

  void run_loop(const Stmt& stmt, Scope& scope, Text& out) {
    std::vector<Value> elements = elements_of(context_, evaluate(*stmt.expr, scope));
    Scope* turn = &new_scope(&scope);
    const auto next_turn = [&] {
      if (turn->captured)
        turn = &new_scope(&scope);
      else
        turn->variables.clear();
    };
    if (stmt.condition) {
      std::vector<Value> kept;
      for (const Value& element : elements) {
        next_turn();
        assign_targets(*turn, stmt.targets, element);
        if (truthy(evaluate(*stmt.condition, *turn))) kept.push_back(element);
      }
      elements = std::move(kept);
    }
    const Value loop = context_.new_namespace();
    Dict& attributes = loop.as_namespace().attributes;
    const auto n = static_cast<int64_t>(elements.size());
    for (int64_t i = 0; i < n; ++i) {
      next_turn();
      context_.charge(4);
      const auto at = [&](int64_t place) {
        return place >= 0 && place < n ? elements[static_cast<size_t>(place)] : Value();
      };
      attributes.set("index", Value::integer(i + 1));
      attributes.set("index0", Value::integer(i));
      attributes.set("revindex", Value::integer(n - i));
      attributes.set("revindex0", Value::integer(n - i - 1));
      attributes.set("first", Value::boolean(i == 0));
      attributes.set("last", Value::boolean(i == n - 1));
      attributes.set("length", Value::integer(n));
      attributes.set("previtem", at(i - 1));
      attributes.set("nextitem", at(i + 1));
      assign_targets(*turn, stmt.targets, at(i));
      assign(*turn, "loop", loop);
      if (execute(stmt.body, *turn, out) == Flow::kBreak) break;
    }
    if (n == 0) {
      next_turn();
      execute(stmt.otherwise, *turn, out);
    }
  }

  // --- expressions ---

  Value evaluate(const Expr& expr, Scope& scope) {
    const Context::Level level(context_);
    context_.set_line(expr.line);
    context_.charge(1);
    switch (expr.kind) {
      case ExprKind::kConstant:
        return expr.constant;
      case ExprKind::kName:
        return look_up(&scope, expr.name);
      case ExprKind::kList:
      case ExprKind::kTuple: {
        std::vector<Value> items;
        for (const ExprPtr& arg : expr.args) items.push_back(evaluate(*arg, scope));
        return context_.new_list(std::move(items), expr.kind == ExprKind::kTuple);
      }
      case ExprKind::kDict:
        return make_dict(expr, scope);
      case ExprKind::kAttribute: {
        const Value base = evaluate_base(expr, scope, expr.name);
        return attribute_of(context_, base, expr.name);
      }
      case ExprKind::kIndex: {
        const Value base = evaluate_base(expr, scope, "[]");
        return item_of(context_, base, evaluate(*expr.args[1], scope));
      }
      case ExprKind::kSlice:
        return slice(expr, scope);
      case ExprKind::kCall:
        return call(expr, scope);
      case ExprKind::kFilter: {
        const Value input = evaluate(*expr.args[0], scope);
        const Arguments arguments = evaluate_arguments(expr, scope);
        context_.set_line(expr.line);
        return find_filter(expr.name)(context_, input, arguments);
      }
      case ExprKind::kTest: {
        const Value input = evaluate(*expr.args[0], scope);
        const Arguments arguments = evaluate_arguments(expr, scope);
        context_.set_line(expr.line);
        return Value::boolean(find_test(expr.name)(context_, input, arguments));
      }
      case ExprKind::kNegate:
      case ExprKind::kPlus:
        return signed_number(expr, evaluate(*expr.args[0], scope));
      case ExprKind::kNot:
        return Value::boolean(!truthy(evaluate(*expr.args[0], scope)));
      case ExprKind::kAnd: {
        Value left = evaluate(*expr.args[0], scope);
        return truthy(left) ? evaluate(*expr.args[1], scope) : left;
      }
      case ExprKind::kOr: {
        Value left = evaluate(*expr.args[0], scope);
        return truthy(left) ? left : evaluate(*expr.args[1], scope);
      }
      case ExprKind::kBinary: {
        const Value left = evaluate(*expr.args[0], scope);
        const Value right = evaluate(*expr.args[1], scope);
        context_.set_line(expr.line);
        return binary(expr.name, left, right);
      }
      case ExprKind::kConcat: {
        Text text;
        for (const ExprPtr& arg : expr.args) write(to_text(context_, evaluate(*arg, scope)), text);
        return Value::string(std::move(text));
      }
      case ExprKind::kCompare:
        return Value::boolean(compare_chain(expr, scope));
      case ExprKind::kCondition:
        if (truthy(evaluate(*expr.args[1], scope))) return evaluate(*expr.args[0], scope);
        return expr.args[2] ? evaluate(*expr.args[2], scope) : Value();
    }
    return {};
  }

  /// args[0], which must be defined because `what` is taken of it.
  Value evaluate_base(const Expr& expr, Scope& scope, std::string_view what) {
    Value base = evaluate(*expr.args[0], scope);
    context_.set_line(expr.line);
    if (base.is_undefined())
      context_.fail(ErrorCode::kFormat, "'{}' is undefined, '{}' cannot be taken of it", describe(*expr.args[0]), what);
    return base;
  }

  Arguments evaluate_arguments(const Expr& expr, Scope& scope) {
    Arguments arguments;
    for (size_t i = 1; i < expr.args.size(); ++i) arguments.positional.push_back(evaluate(*expr.args[i], scope));
    for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, evaluate(*value, scope));
    return arguments;
  }

  Value make_dict(const Expr& expr, Scope& scope) {
    Value dict = context_.new_dict();
    for (size_t i = 0; i < expr.args.size(); i += 2) {
      const Value key = evaluate(*expr.args[i], scope);
      if (!dict.as_dict().set(key, evaluate(*expr.args[i + 1], scope)))
        context_.fail(ErrorCode::kFormat, "{} cannot be a key", key.kind_name());
    }
    return dict;
  }

  // --- calls ---

  Value call(const Expr& expr, Scope& scope) {
    const Expr& callee = *expr.args[0];
    Value function;
    if (callee.kind == ExprKind::kAttribute) {
      const Value self = evaluate_base(callee, scope, callee.name);
      if (has_method(self, callee.name)) {
        const Arguments arguments = evaluate_arguments(expr, scope);
        context_.set_line(expr.line);
        return call_method(context_, self, callee.name, arguments);
      }
      function = attribute_of(context_, self, callee.name);
    } else {
      function = evaluate(callee, scope);
    }
    const Arguments arguments = evaluate_arguments(expr, scope);
    context_.set_line(expr.line);
    if (!function.is(Kind::kFunction)) {
      if (callee.kind == ExprKind::kName && callee.name == "strftime_now")
        context_.fail(ErrorCode::kUnsupported,
                      "strftime_now is not supported, a prompt must not depend on the time of day");
      context_.fail(function.is_undefined() ? ErrorCode::kUnsupported : ErrorCode::kFormat,
                    "'{}' is {}, it cannot be called", describe(callee), function.kind_name());
    }
    const Function& target = function.as_function();
    if (target.macro != nullptr) return call_macro(target, arguments);
    if (target.is_method) return call_method(context_, target.self, target.name, arguments);
    return call_global(target.name, arguments);
  }

  Value call_macro(const Function& function, const Arguments& arguments) {
    const MacroDefinition& macro = *function.macro;
    const int call_line = context_.line();
    if (arguments.positional.size() > macro.parameters.size())
      context_.fail(ErrorCode::kFormat, "macro '{}' takes {} arguments, {} were given", macro.name,
                    macro.parameters.size(), arguments.positional.size());
    Scope& scope = new_scope(function.scope);
    for (size_t i = 0; i < arguments.positional.size(); ++i)
      assign(scope, macro.parameters[i].name, arguments.positional[i]);
    for (const auto& [name, value] : arguments.named) {
      bool known = false;
      for (const auto& parameter : macro.parameters) known |= parameter.name == name;
      if (!known) context_.fail(ErrorCode::kFormat, "macro '{}' has no parameter '{}'", macro.name, name);
      if (find_variable(scope, name) != nullptr)
        context_.fail(ErrorCode::kFormat, "macro '{}' got '{}' twice", macro.name, name);
      assign(scope, name, value);
    }
    for (const auto& parameter : macro.parameters) {
      if (find_variable(scope, parameter.name) == nullptr)
        assign(scope, parameter.name, parameter.fallback ? evaluate(*parameter.fallback, scope) : Value());
    }
    Text text;
    execute(macro.body, scope, text);
    context_.set_line(call_line);
    return Value::string(std::move(text));
  }

  Value call_global(const std::string& name, const Arguments& arguments) {
    if (name == "range") return range(arguments);
    if (name == "raise_exception") {
      const auto bound = arguments.bind(context_, name, 1, {"message"});
      context_.fail(ErrorCode::kUsage, "{}", to_text(context_, *bound[0]).bytes());
    }
    // namespace, dict: names and values, perhaps after a dict to start from
    if (arguments.positional.size() > 1 || (!arguments.positional.empty() && !arguments.positional[0].is(Kind::kDict)))
      context_.fail(ErrorCode::kFormat, "{}: expected at most one mapping and named values", name);
    Value result = name == "dict" ? context_.new_dict() : context_.new_namespace();
    Dict& dict = name == "dict" ? result.as_dict() : result.as_namespace().attributes;
    if (!arguments.positional.empty()) {
      for (const auto& [key, value] : arguments.positional[0].as_dict().entries()) dict.set(key, value);
      context_.charge(dict.entries().size() * 4);
    }
    for (const auto& [key, value] : arguments.named) dict.set(key, value);
    return result;
  }

  Value range(const Arguments& arguments) {
    for (const Value& value : arguments.positional) {
      if (!value.is_integral())
        context_.fail(ErrorCode::kFormat, "range: {} was given, expected integers", value.kind_name());
    }
    const auto bound = arguments.bind(context_, "range", 1, {"start", "stop", "step"});
    int64_t start = 0;
    int64_t stop = bound[0]->as_integer();
    if (bound[1] != nullptr) {
      start = stop;
      stop = bound[1]->as_integer();
    }
    const int64_t step = bound[2] != nullptr ? bound[2]->as_integer() : 1;
    if (step == 0) context_.fail(ErrorCode::kFormat, "range: the step is 0");
    std::vector<Value> items;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
      if (items.size() == kMaxRange) context_.fail(ErrorCode::kLimit, "range: more than {} elements", kMaxRange);
      context_.charge(1);
      items.push_back(Value::integer(i));
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return context_.new_list(std::move(items));
  }

  // --- operators ---

  Value slice(const Expr& expr, Scope& scope) {
    const Value base = evaluate_base(expr, scope, "[:]");
    std::optional<int64_t> bounds[3];
    for (size_t i = 0; i < 3; ++i) {
      if (!expr.args[i + 1]) continue;
      const Value value = evaluate(*expr.args[i + 1], scope);
      if (value.is(Kind::kNone)) continue;
      if (!value.is_integral())
        context_.fail(ErrorCode::kFormat, "{} in a slice, expected integers", value.kind_name());
      bounds[i] = value.as_integer();
    }
    context_.set_line(expr.line);
    if (!base.is_string() && !base.is(Kind::kList))
      context_.fail(ErrorCode::kFormat, "{} cannot be cut into slices", base.kind_name());
    const int64_t step = bounds[2].value_or(1);
    if (step == 0) context_.fail(ErrorCode::kFormat, "the step of a slice is 0");

    // Python's rule: bounds count from the end when negative and are cut to what exists.
    std::vector<size_t> offsets;  // of the characters of a string, and its end
    if (base.is_string()) {
      const std::string& bytes = base.as_bytes();
      context_.charge(1 + bytes.size() / 4);
      for (size_t pos = 0; pos < bytes.size(); pos += character_at(bytes, pos).n_bytes) offsets.push_back(pos);
      offsets.push_back(bytes.size());
    }
    const auto n = static_cast<int64_t>(base.is_string() ? offsets.size() - 1 : base.as_list().items.size());
    const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
      if (!bound) return otherwise;
      const int64_t at = *bound < 0 ? *bound + n : *bound;
      return std::min(std::max<int64_t>(at, step > 0 ? 0 : -1), step > 0 ? n : n - 1);
    };
    int64_t i = clamp(bounds[0], step > 0 ? 0 : n - 1);
    const int64_t stop = clamp(bounds[1], step > 0 ? n : -1);
    if (base.is_string() && step == 1) {
      if (i >= stop) return Value::string({});
      const size_t begin = offsets[static_cast<size_t>(i)];
      return Value::string(base.as_text().substr(begin, offsets[static_cast<size_t>(stop)] - begin));
    }
    std::vector<Value> items;
    Text text;
    while (step > 0 ? i < stop : i > stop) {
      context_.charge(1);
      const auto at = static_cast<size_t>(i);
      if (base.is_string())
        text.append_range(base.as_text(), offsets[at], offsets[at + 1] - offsets[at]);
      else
        items.push_back(base.as_list().items[at]);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    if (base.is_string()) return Value::string(std::move(text));
    return context_.new_list(std::move(items), base.as_list().is_tuple);
  }

  Value signed_number(const Expr& expr, const Value& value) {
    context_.set_line(expr.line);
    const bool negate = expr.kind == ExprKind::kNegate;
    if (value.is(Kind::kFloat)) return Value::number(negate ? -value.as_number() : value.as_number());
    if (!value.is_integral())
      context_.fail(ErrorCode::kFormat, "{} cannot have a sign, expected a number", value.kind_name());
    return negate ? binary("-", Value::integer(0), value) : Value::integer(value.as_integer());
  }

  bool compare_chain(const Expr& expr, Scope& scope) {
    Value left = evaluate(*expr.args[0], scope);
    for (size_t i = 0; i < expr.operators.size(); ++i) {
      Value right = evaluate(*expr.args[i + 1], scope);
      context_.set_line(expr.line);
      if (!holds(expr.operators[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  bool holds(std::string_view op, const Value& left, const Value& right) {
    if (op == "==") return equal(context_, left, right);
    if (op == "!=") return !equal(context_, left, right);
    if (op == "in") return contains(context_, right, left);
    if (op == "not in") return !contains(context_, right, left);
    const int order = compare(context_, left, right);
    if (op == "<") return order < 0;
    if (op == "<=") return order <= 0;
    if (op == ">") return order > 0;
    return order >= 0;
  }

  Value binary(std::string_view op, const Value& left, const Value& right) {
    if (left.is_integral() && right.is_integral() && op != "/")
      return integer_binary(op, left.as_integer(), right.as_integer());
    if (left.is_numeric() && right.is_numeric()) return number_binary(op, left.as_number(), right.as_number());
    if (op == "+" && left.is_string() && right.is_string()) {
      Text text;
      write(left.as_text(), text);
      write(right.as_text(), text);
      return Value::string(std::move(text));
    }
    if (op == "+" && left.is(Kind::kList) && right.is(Kind::kList) &&
        left.as_list().is_tuple == right.as_list().is_tuple) {
      std::vector<Value> items = left.as_list().items;
      const std::vector<Value>& more = right.as_list().items;
      context_.charge(items.size() + more.size());
      items.insert(items.end(), more.begin(), more.end());
      return context_.new_list(std::move(items), left.as_list().is_tuple);
    }
    if (op == "*" && left.is_string() && right.is_integral()) {
      Text text;
      for (int64_t i = 0; i < right.as_integer(); ++i) write(left.as_text(), text);
      return Value::string(std::move(text));
    }
    context_.fail(ErrorCode::kFormat, "'{}' between {} and {} is not possible", op, left.kind_name(),
                  right.kind_name());
  }

  Value integer_binary(std::string_view op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    if (op == "+") {
      overflow = __builtin_add_overflow(a, b, &result);
    } else if (op == "-") {
      overflow = __builtin_sub_overflow(a, b, &result);
    } else if (op == "*") {
      overflow = __builtin_mul_overflow(a, b, &result);
    } else if (op == "**") {
      if (b < 0) return number_binary(op, static_cast<double>(a), static_cast<double>(b));
      result = 1;
      for (int64_t i = 0; i < b && !overflow; ++i) {
        context_.charge(1);
        overflow = __builtin_mul_overflow(result, a, &result);
      }
    } else {
      if (b == 0) context_.fail(ErrorCode::kFormat, "division by zero");
      overflow = op == "//" && a == std::numeric_limits<int64_t>::min() && b == -1;
      if (!overflow && b != -1) {
        const int64_t remainder = a % b;
        const bool round_down = remainder != 0 && (remainder < 0) != (b < 0);
        result = op == "//" ? a / b - (round_down ? 1 : 0) : remainder + (round_down ? b : 0);
      } else if (!overflow) {
        result = op == "//" ? -a : 0;
      }
    }
    if (overflow) context_.fail(ErrorCode::kLimit, "the result of '{}' has more than 64 bits", op);
    return Value::integer(result);
  }

  Value number_binary(std::string_view op, double a, double b) {
    if (op == "+") return Value::number(a + b);
    if (op == "-") return Value::number(a - b);
    if (op == "*") return Value::number(a * b);
    if (op == "**") return Value::number(std::pow(a, b));
    if (b == 0) context_.fail(ErrorCode::kFormat, "division by zero");
    if (op == "/") return Value::number(a / b);
    if (op == "//") return Value::number(std::floor(a / b));
    const double remainder = std::fmod(a, b);
    return Value::number(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
  }

  Context& context_;
  const Dict& variables_;
  std::deque<Scope> scopes_;
};

}  // namespace

Text interpret(Context& context, const Body& body, const Dict& variables) {
  return Interpreter(context, variables).run(body);
}

}  // namespace kda::jinja
