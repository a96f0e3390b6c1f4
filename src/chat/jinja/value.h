// Values of the template language, and what one rendering owns and may use up.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/jinja/text.h"

namespace kda::jinja {

class Context;
class Dict;
struct Function;
struct List;
struct Namespace;

enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kDict, kNamespace, kFunction };

/// One value, with Python's reference semantics: strings are immutable and shared; lists, dicts and the rest belong to
/// a Context, which must outlive the value.
class Value {
 public:
  Value() = default;  // undefined
  static Value none() { return Value(Kind::kNone, {.integer = 0}); }
  static Value boolean(bool b) { return Value(Kind::kBool, {.integer = b ? 1 : 0}); }
  static Value integer(int64_t i) { return Value(Kind::kInt, {.integer = i}); }
  static Value number(double x) { return Value(Kind::kFloat, {.number = x}); }
  static Value string(Text text) {
    Value value(Kind::kString, {.integer = 0});
    value.text_ = std::make_shared<const Text>(std::move(text));
    return value;
  }
  /// Text that did not come from a template.
  static Value input(std::string text) { return string(Text(std::move(text), false)); }
  explicit Value(List* list) : Value(Kind::kList, {.list = list}) {}
  explicit Value(Dict* dict) : Value(Kind::kDict, {.dict = dict}) {}
  explicit Value(Namespace* space) : Value(Kind::kNamespace, {.space = space}) {}
  explicit Value(const Function* function) : Value(Kind::kFunction, {.function = function}) {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is(Kind kind) const noexcept { return kind_ == kind; }
  [[nodiscard]] bool is_undefined() const noexcept { return is(Kind::kUndefined); }
  [[nodiscard]] bool is_string() const noexcept { return is(Kind::kString); }
  /// Booleans and integers are integers, as in Python.
  [[nodiscard]] bool is_integral() const noexcept { return is(Kind::kInt) || is(Kind::kBool); }
  [[nodiscard]] bool is_numeric() const noexcept { return is_integral() || is(Kind::kFloat); }

  // Each needs a value of that kind.
  [[nodiscard]] bool as_bool() const { return checked(is(Kind::kBool)).integer != 0; }
  [[nodiscard]] int64_t as_integer() const { return checked(is_integral()).integer; }
  [[nodiscard]] double as_number() const {
    return is(Kind::kFloat) ? payload_.number : static_cast<double>(as_integer());
  }
  [[nodiscard]] const Text& as_text() const {
    KDA_CHECK(text_ != nullptr);
    return *text_;
  }
  [[nodiscard]] const std::string& as_bytes() const { return as_text().bytes(); }
  [[nodiscard]] List& as_list() const { return *checked(is(Kind::kList)).list; }
  [[nodiscard]] Dict& as_dict() const { return *checked(is(Kind::kDict)).dict; }
  [[nodiscard]] Namespace& as_namespace() const { return *checked(is(Kind::kNamespace)).space; }
  [[nodiscard]] const Function& as_function() const { return *checked(is(Kind::kFunction)).function; }

  /// The kind with its article, for messages.
  [[nodiscard]] std::string_view kind_name() const noexcept;

 private:
  union Payload {
    int64_t integer;
    double number;
    List* list;
    Dict* dict;
    Namespace* space;
    const Function* function;
  };
  Value(Kind kind, Payload payload) : kind_(kind), payload_(payload) {}
  [[nodiscard]] const Payload& checked(bool right_kind) const {
    KDA_CHECK(right_kind);
    return payload_;
  }

  Kind kind_ = Kind::kUndefined;
  Payload payload_{.integer = 0};
  std::shared_ptr<const Text> text_;  // of a string
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
};

/// Keeps the order in which keys came. Keys are strings, numbers, booleans or none.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// nullptr when the key is absent or cannot be one.
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  /// Adds or replaces; a replaced value keeps its place. False when the value cannot be a key.
  bool set(const Value& key, Value value);
  void set(std::string_view key, Value value);
  void erase(const Value& key);

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // key_of(key) -> place in entries_
};

/// What namespace() makes, and the `loop` of a for statement: attributes by name.
struct Namespace {
  Dict attributes;
};

struct MacroDefinition;
struct Scope;

/// Something that can be called: a macro with the scope it was defined in, a global function, or a method of `self`.
struct Function {
  std::string name;
  const MacroDefinition* macro = nullptr;
  Scope* scope = nullptr;
  bool is_method = false;
  Value self{};
};

struct Limits {
  size_t max_steps =
      10'000'000;  // about one per evaluated node, list element or 16 bytes of text: at most some seconds
  size_t max_output_bytes = size_t{64} << 20;
  int max_depth = 400;  // of evaluation: a level takes up to about 1 KiB of stack
};

/// One rendering: owner of its lists and dicts, counter of its limits, and the line it is at. Not thread-safe.
class Context {
 public:
  explicit Context(Limits limits = {}) : limits_(limits) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Value new_list(std::vector<Value> items = {}, bool is_tuple = false);
  Value new_dict();
  Value new_namespace();
  Value new_function(Function function);

  /// Throws Error(kLimit) when the rendering has used up its steps.
  void charge(size_t n_steps) {
    steps_ += n_steps;
    if (steps_ > limits_.max_steps) fail(ErrorCode::kLimit, "more than {} steps are needed", limits_.max_steps);
  }
  void charge_bytes(size_t n_bytes) { charge(1 + n_bytes / 16); }
  void check_output(size_t n_bytes) {
    if (n_bytes > limits_.max_output_bytes)
      fail(ErrorCode::kLimit, "the prompt has more than {} bytes", limits_.max_output_bytes);
  }

  /// Throws Error with the line in front.
  template <typename... Args>
  [[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(code,
                fmt::format("chat template, line {}: {}", line_, fmt::format(format, std::forward<Args>(args)...)));
  }
  void set_line(int line) noexcept { line_ = line; }
  [[nodiscard]] int line() const noexcept { return line_; }

  /// One level of evaluation, as long as it lives.
  class Level {
   public:
    explicit Level(Context& context) : context_(context) {
      if (context_.depth_ >= context_.limits_.max_depth)
        context_.fail(ErrorCode::kLimit, "nested deeper than {} levels", context_.limits_.max_depth);
      ++context_.depth_;
    }
    ~Level() { --context_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Context& context_;
  };

 private:
  Limits limits_;
  size_t steps_ = 0;
  int depth_ = 0;
  int line_ = 1;
  // Deques: elements do not move. Values point into them, also in circles.
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Function> functions_;
};

/// Python's bool(), ==, str() and the text of a float.
[[nodiscard]] bool truthy(const Value& value);
[[nodiscard]] bool equal(Context& context, const Value& a, const Value& b);
[[nodiscard]] Text to_text(Context& context, const Value& value);
[[nodiscard]] std::string float_text(double x);

/// The elements that a for statement sees: items, keys, characters; none for an undefined value. Throws Error(kFormat)
/// for what has no elements.
[[nodiscard]] std::vector<Value> elements_of(Context& context, const Value& value);

}  // namespace kda::jinja
