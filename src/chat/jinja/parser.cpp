#include "chat/jinja/parser.h"

#include <algorithm>

#include "chat/jinja/expression_parser.h"

namespace kda::jinja {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

/// Statements; the expressions in them are the base class's.
class Parser : private ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(source) {}

  Body run() {
    Body body = parse_body({});
    KDA_CHECK(current().type == TokenType::kEnd);
    return body;
  }

 private:
  void expect_block_end() {
    if (current().type != TokenType::kBlockEnd) unexpected("%}");
    take();
  }

  /// Statements up to a tag whose name is in `ends`; that tag's name is the next token then.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Body body;
    while (true) {
      const Token& token = current();
      if (token.type == TokenType::kData) {
        body.push_back(make(StmtKind::kData));
        body.back()->data = Text(take().text, true);
      } else if (token.type == TokenType::kVariableBegin) {
        body.push_back(make(StmtKind::kPrint));
        take();
        body.back()->expr = parse_tuple();
        if (current().type != TokenType::kVariableEnd) unexpected("}}");
        take();
      } else if (token.type == TokenType::kBlockBegin) {
        take();
        if (current().type != TokenType::kName) unexpected("the name of a tag");
        if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return body;
        body.push_back(parse_statement());
      } else {
        if (ends.size() > 0) unexpected(fmt::format("{{% {} %}}", *(ends.end() - 1)));
        return body;
      }
    }
  }

  std::unique_ptr<Stmt> make(StmtKind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = current().line;
    return stmt;
  }

  std::unique_ptr<Stmt> parse_statement() {
    const std::string& tag = current().text;
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "generation") {  // marks what the model wrote; of no meaning for a prompt
      auto stmt = make(StmtKind::kGroup);
      take();
      expect_block_end();
      stmt->body = parse_body({"endgeneration"});
      end_tag();
      return stmt;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(current().line, ErrorCode::kFormat, "'{}' outside of a loop", tag);
      auto stmt = make(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue);
      end_tag();
      return stmt;
    }
    static constexpr std::string_view kMisplaced[] = {"elif",   "else",     "endif",        "endfor",
                                                      "endset", "endmacro", "endgeneration"};
    if (std::find(std::begin(kMisplaced), std::end(kMisplaced), tag) != std::end(kMisplaced))
      fail_at(current().line, ErrorCode::kFormat, "the tag '{}' does not belong here", tag);
    fail_at(current().line, ErrorCode::kUnsupported, "the tag '{}' is not supported", tag);
  }

  /// The rest of a tag that has nothing but its name.
  void end_tag() {
    take();
    expect_block_end();
  }

  std::unique_ptr<Stmt> parse_if() {
    auto stmt = make(StmtKind::kIf);
    do {
      take();  // if, elif
      ExprPtr condition = parse_tuple(false);
      expect_block_end();
      Body body = parse_body({"elif", "else", "endif"});
      stmt->branches.emplace_back(std::move(condition), std::move(body));
    } while (at_name("elif"));
    if (at_name("else")) {
      end_tag();
      stmt->body = parse_body({"endif"});
    }
    end_tag();
    return stmt;
  }

  std::vector<std::string> parse_targets() {
    const bool parenthesis = skip_operator("(");
    std::vector<std::string> targets{take_identifier("a name to assign to")};
    while (skip_operator(",")) targets.push_back(take_identifier("a name to assign to"));
    if (parenthesis) expect_operator(")");
    return targets;
  }

  std::unique_ptr<Stmt> parse_for() {
    auto stmt = make(StmtKind::kFor);
    take();
    stmt->targets = parse_targets();
    expect_name("in");
    stmt->expr = parse_tuple(false);
    if (skip_name("if")) stmt->condition = parse_expression();
    if (at_name("recursive"))
      fail_at(current().line, ErrorCode::kUnsupported, "'recursive' in a for tag is not supported");
    expect_block_end();
    ++loops_;
    stmt->body = parse_body({"else", "endfor"});
    --loops_;
    if (at_name("else")) {
      end_tag();
      stmt->otherwise = parse_body({"endfor"});
    }
    end_tag();
    return stmt;
  }

  std::unique_ptr<Stmt> parse_set() {
    auto stmt = make(StmtKind::kSet);
    take();
    stmt->targets = parse_targets();
    if (stmt->targets.size() == 1 && skip_operator(".")) {
      stmt->kind = StmtKind::kSetAttribute;
      stmt->attribute = take_identifier("the name of an attribute");
    }
    if (skip_operator("=")) {
      stmt->expr = parse_tuple();
      expect_block_end();
      return stmt;
    }
    if (at_operator("|")) fail_at(current().line, ErrorCode::kUnsupported, "a filter on a set block is not supported");
    if (stmt->kind != StmtKind::kSet || stmt->targets.size() != 1) unexpected("'='");
    stmt->kind = StmtKind::kSetBlock;
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    stmt->body = parse_body({"endset"});
    loops_ = loops;
    end_tag();
    return stmt;
  }

  std::unique_ptr<Stmt> parse_macro() {
    auto stmt = make(StmtKind::kMacro);
    take();
    stmt->macro = std::make_unique<MacroDefinition>();
    MacroDefinition& macro = *stmt->macro;
    macro.name = take_identifier("the name of a macro");
    expect_operator("(");
    while (!skip_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      std::string name = take_identifier("the name of a parameter");
      ExprPtr fallback = skip_operator("=") ? parse_expression() : nullptr;
      if (!fallback && !macro.parameters.empty() && macro.parameters.back().fallback)
        fail_at(current().line, ErrorCode::kFormat, "parameter '{}' without a default after one that has one", name);
      macro.parameters.push_back({std::move(name), std::move(fallback)});
    }
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    ++macros_;
    macro.body = parse_body({"endmacro"});
    --macros_;
    loops_ = loops;
    end_tag();
    return stmt;
  }

  int loops_ = 0;  // for statements around the current place
};

}  // namespace

Body parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    fail(ErrorCode::kLimit, "chat template: {} bytes, expected at most {}", source.size(), kMaxTemplateBytes);
  return Parser(source).run();
}

}  // namespace kda::jinja
