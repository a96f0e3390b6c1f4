// Tokens -> trees of expressions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"

namespace kda::jinja {

/// Goes through the tokens of a template; by recursive descent, with bounded depth.
class ExpressionParser {
 protected:
  explicit ExpressionParser(std::string_view source) : tokens_(tokenize(source)) {}

  [[nodiscard]] const Token& current() const { return tokens_[next_]; }
  [[nodiscard]] bool at_operator(std::string_view text) const { return is(current(), TokenType::kOperator, text); }
  [[nodiscard]] bool at_name(std::string_view text) const { return is(current(), TokenType::kName, text); }
  const Token& take();
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  [[noreturn]] void unexpected(std::string_view expected) const;
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string take_identifier(std::string_view what);

  /// One level of brackets or tags, as long as it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

  /// One expression, or several with commas between them, which make a tuple.
  ExprPtr parse_tuple(bool with_condition = true);
  ExprPtr parse_expression();

  int macros_ = 0;  // macros around the current place

 private:
  [[nodiscard]] const Token& ahead() const;
  [[nodiscard]] static bool is(const Token& token, TokenType type, std::string_view text) {
    return token.type == type && token.text == text;
  }

  // From loosest to tightest binding.
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_filtered();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_primary();

  ExprPtr parse_binary(std::initializer_list<std::string_view> operators, ExprPtr (ExpressionParser::*parse_operand)());
  std::string take_comparison();
  ExprPtr parse_name();
  ExprPtr parse_parenthesis();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_subscript(ExprPtr expr, int line);
  ExprPtr parse_call(ExprPtr callee);
  void parse_arguments(Expr& call);
  ExprPtr parse_test(ExprPtr expr, int line);
  [[nodiscard]] bool at_test_operand() const;
  [[nodiscard]] bool at_expression_end() const;

  std::vector<Token> tokens_;
  size_t next_ = 0;
  int nesting_ = 0;
};

}  // namespace kda::jinja
