// What a template looks like after parsing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

namespace kda::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

enum class ExprKind {
  kConstant,   // constant
  kName,       // name
  kList,       // args
  kTuple,      // args
  kDict,       // args: key, value, key, value ...
  kAttribute,  // args[0].name
  kIndex,      // args[0][args[1]]
  kSlice,      // args[0][args[1]:args[2]:args[3]], each may be null
  kCall,       // args[0](args[1] ..., named ...)
  kFilter,     // args[0] | name(args[1] ..., named ...)
  kTest,       // args[0] is name(args[1] ..., named ...)
  kNegate,     // - args[0]
  kPlus,       // + args[0]
  kNot,        // not args[0]
  kAnd,        // args[0] and args[1]
  kOr,         // args[0] or args[1]
  kBinary,     // args[0] name args[1]: + - * / // % **
  kConcat,     // args joined as text
  kCompare,    // args[0] operators[0] args[1] operators[1] args[2] ...
  kCondition,  // args[0] if args[1] else args[2], which may be null
};

struct Expr {
  ExprKind kind;
  int line;
  int height = 1;  // of the tree below: bounds the recursion of everything that walks it
  std::string name;
  Value constant;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<std::string> operators;
};

struct MacroDefinition {
  struct Parameter {
    std::string name;
    ExprPtr fallback;  // null: undefined when not given
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};

enum class StmtKind {
  kData,          // data
  kPrint,         // expr
  kIf,            // branches; body is the else branch
  kFor,           // targets in expr if condition: body; otherwise when there was no element
  kSet,           // targets = expr
  kSetAttribute,  // targets[0].attribute = expr
  kSetBlock,      // targets[0] = text of body
  kMacro,         // macro
  kGroup,         // body
  kBreak,
  kContinue,
};

struct Stmt {
  StmtKind kind;
  int line;
  Text data;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<std::string> targets;  // more than one: each takes an element
  std::string attribute;
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body body;
  Body otherwise;
  std::unique_ptr<MacroDefinition> macro;
};

}  // namespace kda::jinja
