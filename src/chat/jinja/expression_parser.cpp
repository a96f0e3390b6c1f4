#include "chat/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "chat/jinja/builtins.h"

namespace kda::jinja {
namespace {

constexpr int kMaxNesting = 200;  // of brackets and tags while parsing
constexpr int kMaxHeight = 200;   // of an expression's tree

bool is_keyword(std::string_view name) {
  return name == "and" || name == "or" || name == "not" || name == "if" || name == "else" || name == "elif" ||
         name == "in" || name == "is";
}

ExprPtr make(ExprKind kind, int line) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

void grow(Expr& expr, const Expr* child) {
  if (child == nullptr) return;
  expr.height = std::max(expr.height, child->height + 1);
  if (expr.height > kMaxHeight)
    fail_at(expr.line, ErrorCode::kLimit, "an expression is nested deeper than {} levels", kMaxHeight);
}

void add_arg(Expr& expr, ExprPtr arg) {
  grow(expr, arg.get());
  expr.args.push_back(std::move(arg));
}

ExprPtr make(ExprKind kind, int line, ExprPtr first, ExprPtr second = nullptr) {
  ExprPtr expr = make(kind, line);
  add_arg(*expr, std::move(first));
  if (second) add_arg(*expr, std::move(second));
  return expr;
}

ExprPtr constant(Value value, int line) {
  ExprPtr expr = make(ExprKind::kConstant, line);
  expr->constant = std::move(value);
  return expr;
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (parser_.nesting_ >= kMaxNesting)
    fail_at(parser_.current().line, ErrorCode::kLimit, "nested deeper than {} levels", kMaxNesting);
  ++parser_.nesting_;
}

const Token& ExpressionParser::ahead() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
const Token& ExpressionParser::take() {
  const Token& token = current();
  if (token.type != TokenType::kEnd) ++next_;
  return token;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  ++next_;
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  ++next_;
  return true;
}

void ExpressionParser::unexpected(std::string_view expected) const {
  const Token& token = current();
  std::string found = "'" + token.text + "'";
  switch (token.type) {
    case TokenType::kData:
      found = "text";
      break;
    case TokenType::kVariableBegin:
      found = "{{";
      break;
    case TokenType::kVariableEnd:
      found = "}}";
      break;
    case TokenType::kBlockBegin:
      found = "{%";
      break;
    case TokenType::kBlockEnd:
      found = "%}";
      break;
    case TokenType::kEnd:
      found = "the end of the template";
      break;
    default:
      break;
  }
  fail_at(token.line, ErrorCode::kFormat, "expected {}, found {}", expected, found);
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(fmt::format("'{}'", text));
}

void ExpressionParser::expect_name(std::string_view text) {
  if (!skip_name(text)) unexpected(fmt::format("'{}'", text));
}

std::string ExpressionParser::take_identifier(std::string_view what) {
  if (current().type != TokenType::kName || is_keyword(current().text)) unexpected(what);
  return take().text;
}

ExprPtr ExpressionParser::parse_tuple(bool with_condition) {
  ExprPtr first = with_condition ? parse_expression() : parse_or();
  if (!at_operator(",")) return first;
  const int line = first->line;
  ExprPtr tuple = make(ExprKind::kTuple, line, std::move(first));
  while (skip_operator(",")) {
    if (at_expression_end()) break;
    add_arg(*tuple, with_condition ? parse_expression() : parse_or());
  }
  return tuple;
}

bool ExpressionParser::at_expression_end() const {
  const TokenType type = current().type;
  return type == TokenType::kVariableEnd || type == TokenType::kBlockEnd || at_operator(")");
}

ExprPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  ExprPtr value = parse_or();
  while (at_name("if")) {
    const int line = take().line;
    ExprPtr condition = parse_or();
    ExprPtr expr = make(ExprKind::kCondition, line, std::move(value), std::move(condition));
    add_arg(*expr, skip_name("else") ? parse_expression() : nullptr);
    value = std::move(expr);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (at_name("or")) {
    const int line = take().line;
    left = make(ExprKind::kOr, line, std::move(left), parse_and());
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (at_name("and")) {
    const int line = take().line;
    left = make(ExprKind::kAnd, line, std::move(left), parse_not());
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Nesting nesting(*this);
  const int line = take().line;
  return make(ExprKind::kNot, line, parse_not());
}

std::string ExpressionParser::take_comparison() {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  for (const std::string_view op : kOperators) {
    if (skip_operator(op)) return std::string(op);
  }
  if (skip_name("in")) return "in";
  if (at_name("not") && is(ahead(), TokenType::kName, "in")) {
    next_ += 2;
    return "not in";
  }
  return {};
}

ExprPtr ExpressionParser::parse_compare() {
  const int line = current().line;
  ExprPtr left = parse_sum();
  std::string op = take_comparison();
  if (op.empty()) return left;
  ExprPtr expr = make(ExprKind::kCompare, line, std::move(left));
  for (; !op.empty(); op = take_comparison()) {
    expr->operators.push_back(std::move(op));
    add_arg(*expr, parse_sum());
  }
  return expr;
}

ExprPtr ExpressionParser::parse_binary(std::initializer_list<std::string_view> operators,
                                       ExprPtr (ExpressionParser::*parse_operand)()) {
  ExprPtr left = (this->*parse_operand)();
  while (true) {
    const auto op = std::find_if(operators.begin(), operators.end(), [&](auto o) { return at_operator(o); });
    if (op == operators.end()) return left;
    const int line = take().line;
    left = make(ExprKind::kBinary, line, std::move(left), (this->*parse_operand)());
    left->name = *op;
  }
}

ExprPtr ExpressionParser::parse_sum() { return parse_binary({"+", "-"}, &ExpressionParser::parse_concat); }

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!at_operator("~")) return first;
  ExprPtr expr = make(ExprKind::kConcat, current().line, std::move(first));
  while (skip_operator("~")) add_arg(*expr, parse_product());
  return expr;
}

ExprPtr ExpressionParser::parse_product() {
  return parse_binary({"*", "/", "//", "%"}, &ExpressionParser::parse_power);
}

ExprPtr ExpressionParser::parse_power() { return parse_binary({"**"}, &ExpressionParser::parse_filtered); }

ExprPtr ExpressionParser::parse_filtered() { return parse_unary(true); }

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  ExprPtr expr;
  if (at_operator("-") || at_operator("+")) {
    const Token& sign = take();
    expr = make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line, parse_unary(false));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  if (with_filters) expr = parse_filters_and_tests(std::move(expr));
  return expr;
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  switch (token.type) {
    case TokenType::kName:
      return parse_name();
    case TokenType::kString: {
      std::string text;
      while (current().type == TokenType::kString) text += take().text;
      return constant(Value::string(Text(std::move(text), true)), token.line);
    }
    case TokenType::kInteger: {
      int64_t value = 0;
      const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (result.ec != std::errc())
        fail_at(token.line, ErrorCode::kUnsupported, "the number {} has more than 64 bits", token.text);
      return constant(Value::integer(value), take().line);
    }
    case TokenType::kFloat: {
      double value = 0;
      const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (result.ec != std::errc())
        fail_at(token.line, ErrorCode::kUnsupported, "the number {} is out of range", token.text);
      return constant(Value::number(value), take().line);
    }
    case TokenType::kOperator:
      if (token.text == "(") return parse_parenthesis();
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      break;
    default:
      break;
  }
  unexpected("an expression");
}

ExprPtr ExpressionParser::parse_name() {
  const Token& token = current();
  const std::string& name = token.text;
  if (is_keyword(name)) unexpected("an expression");
  ++next_;
  if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return constant(Value::none(), token.line);
  if (macros_ > 0 && (name == "varargs" || name == "kwargs" || name == "caller"))
    fail_at(token.line, ErrorCode::kUnsupported, "'{}' in a macro is not supported", name);
  ExprPtr expr = make(ExprKind::kName, token.line);
  expr->name = name;
  return expr;
}

ExprPtr ExpressionParser::parse_parenthesis() {
  const int line = take().line;
  if (skip_operator(")")) return make(ExprKind::kTuple, line);
  ExprPtr inner = parse_tuple();
  expect_operator(")");
  return inner;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr list = make(ExprKind::kList, take().line);
  while (!skip_operator("]")) {
    if (!list->args.empty()) {
      expect_operator(",");
      if (skip_operator("]")) break;
    }
    add_arg(*list, parse_expression());
  }
  return list;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr dict = make(ExprKind::kDict, take().line);
  while (!skip_operator("}")) {
    if (!dict->args.empty()) {
      expect_operator(",");
      if (skip_operator("}")) break;
    }
    add_arg(*dict, parse_expression());
    expect_operator(":");
    add_arg(*dict, parse_expression());
  }
  return dict;
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
  while (true) {
    const int line = current().line;
    if (skip_operator(".")) {
      if (current().type == TokenType::kInteger) {
        expr = make(ExprKind::kIndex, line, std::move(expr), parse_primary());
      } else {
        expr = make(ExprKind::kAttribute, line, std::move(expr));
        if (current().type != TokenType::kName) unexpected("the name of an attribute");
        expr->name = take().text;
      }
    } else if (skip_operator("[")) {
      expr = parse_subscript(std::move(expr), line);
    } else if (at_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr expr, int line) {
  std::vector<ExprPtr> parts;
  bool is_slice = false;
  parts.push_back(at_operator(":") ? nullptr : parse_expression());
  while (skip_operator(":")) {
    is_slice = true;
    parts.push_back(at_operator(":") || at_operator("]") ? nullptr : parse_expression());
  }
  expect_operator("]");
  if (parts.size() > 3) fail_at(line, ErrorCode::kFormat, "a slice has more than three parts");
  if (!is_slice) return make(ExprKind::kIndex, line, std::move(expr), std::move(parts[0]));
  ExprPtr slice = make(ExprKind::kSlice, line, std::move(expr));
  parts.resize(3);
  for (ExprPtr& part : parts) add_arg(*slice, std::move(part));
  return slice;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  const int line = current().line;
  if (callee->kind == ExprKind::kAttribute && !is_method(callee->name))
    fail_at(line, ErrorCode::kUnsupported, "the method '{}' is not supported", callee->name);
  ExprPtr call = make(ExprKind::kCall, line, std::move(callee));
  parse_arguments(*call);
  return call;
}

void ExpressionParser::parse_arguments(Expr& call) {
  expect_operator("(");
  bool first = true;
  while (!skip_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (skip_operator(")")) break;
    }
    first = false;
    if (at_operator("*") || at_operator("**"))
      fail_at(current().line, ErrorCode::kUnsupported, "'{}' in a call is not supported", current().text);
    if (current().type == TokenType::kName && is(ahead(), TokenType::kOperator, "=")) {
      std::string name = take().text;
      ++next_;
      ExprPtr value = parse_expression();
      grow(call, value.get());
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty())
        fail_at(current().line, ErrorCode::kFormat, "an argument without a name after one with a name");
      add_arg(call, parse_expression());
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    const int line = current().line;
    if (skip_operator("|")) {
      expr = make(ExprKind::kFilter, line, std::move(expr));
      expr->name = take_identifier("the name of a filter");
      if (find_filter(expr->name) == nullptr)
        fail_at(line, ErrorCode::kUnsupported, "the filter '{}' is not supported", expr->name);
      if (at_operator("(")) parse_arguments(*expr);
    } else if (skip_name("is")) {
      expr = parse_test(std::move(expr), line);
    } else if (at_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_test(ExprPtr expr, int line) {
  const bool negated = skip_name("not");
  expr = make(ExprKind::kTest, line, std::move(expr));
  if (current().type != TokenType::kName) unexpected("the name of a test");
  expr->name = take().text;
  if (find_test(expr->name) == nullptr)
    fail_at(line, ErrorCode::kUnsupported, "the test '{}' is not supported", expr->name);
  if (at_operator("(")) {
    parse_arguments(*expr);
  } else if (at_test_operand()) {
    add_arg(*expr, parse_postfix(parse_primary()));
  }
  return negated ? make(ExprKind::kNot, line, std::move(expr)) : std::move(expr);
}

/// A test may have one argument without parentheses: x is divisibleby 3.
bool ExpressionParser::at_test_operand() const {
  switch (current().type) {
    case TokenType::kName:
      return !is_keyword(current().text);
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
      return true;
    default:
      return at_operator("[") || at_operator("{");
  }
}

}  // namespace kda::jinja
