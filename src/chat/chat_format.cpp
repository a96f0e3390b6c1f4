#include "chat/chat_format.h"

#include "base/error.h"
#include "chat/jinja/json.h"
#include "chat/jinja/template.h"
#include "chat/prompt_encoder.h"

namespace kda {
namespace {

using jinja::Context;
using jinja::Dict;
using jinja::Kind;
using jinja::Text;
using jinja::Value;

/// Hands out the ids of tool calls in the order of the conversation.
class ToolCallIds {
 public:
  std::string next(const ToolCall& call) {
    const int index = n_calls_++;
    return call.id.empty() ? fmt::format("functions.{}:{}", call.name, index) : call.id;
  }

 private:
  int n_calls_ = 0;
};

/// The tools as a list; none when there are none.
Value parse_tools(Context& context, std::string_view tools_json) {
  if (tools_json.empty()) return Value::none();
  Value tools = jinja::parse_json(context, tools_json, "tools");
  if (tools.is(Kind::kNone)) return tools;
  if (!tools.is(Kind::kList)) fail(ErrorCode::kUsage, "tools: {}, expected a JSON array", tools.kind_name());
  return tools;
}

// --- the built-in format ---

void append_header(std::string_view token, const std::string& name, Text& out) {
  out.append(token, true);
  out.append(name, false);
  out.append("<|im_middle|>", true);
}

void append_tool_calls(const std::vector<ToolCall>& calls, ToolCallIds& ids, Text& out) {
  out.append("<|tool_calls_section_begin|>", true);
  for (const ToolCall& call : calls) {
    out.append("<|tool_call_begin|>", true);
    out.append(ids.next(call), false);
    out.append("<|tool_call_argument_begin|>", true);
    out.append(call.arguments, false);
    out.append("<|tool_call_end|>", true);
  }
  out.append("<|tool_calls_section_end|>", true);
}

/// model-spec 6.6: turns follow each other without anything between them, and there is no default system message.
Text render_built_in(Context& context, std::span<const ChatMessage> messages, bool add_generation_prompt,
                     std::string_view tools_json) {
  Text out;
  const Value tools = parse_tools(context, tools_json);
  if (jinja::truthy(tools)) {
    append_header("<|im_system|>", "tool_declare", out);
    // Moonshot's own tokenizer sorts the keys at every level and writes no spaces.
    out.append(to_json(context, tools, {.item_separator = ",", .key_separator = ":", .sort_keys = true}));
    out.append("<|im_end|>", true);
  }
  ToolCallIds ids;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const std::string& name = message.name.empty() ? message.role : message.name;
    if (message.role == "user") {
      append_header("<|im_user|>", name, out);
    } else if (message.role == "assistant") {
      append_header("<|im_assistant|>", name, out);
    } else if (message.role == "system" || message.role == "tool") {
      append_header("<|im_system|>", name, out);
    } else {
      fail(ErrorCode::kUsage, "chat: message {} has the role '{}', expected system, user, assistant or tool", i + 1,
           message.role);
    }
    if (message.role == "tool") {
      out.append("## Return of ", true);
      out.append((message.tool_call_id.empty() ? "None" : message.tool_call_id) + "\n", false);
    }
    out.append(message.content, false);
    if (message.role == "assistant" && !message.tool_calls.empty()) append_tool_calls(message.tool_calls, ids, out);
    out.append("<|im_end|>", true);
  }
  if (add_generation_prompt) append_header("<|im_assistant|>", "assistant", out);
  return out;
}

// --- templates ---

/// How a template wants the arguments of tool calls.
enum class ArgumentStyle { kText, kObject };

Value make_tool_call(Context& context, const ToolCall& call, ToolCallIds& ids, ArgumentStyle style) {
  Value arguments = Value::input(call.arguments);
  if (style == ArgumentStyle::kObject) {
    try {
      arguments = jinja::parse_json(context, call.arguments, "arguments");
    } catch (const Error&) {
      // What a model wrote need not be JSON; then the template gets the text.
    }
  }
  const Value function = context.new_dict();
  function.as_dict().set("name", Value::input(call.name));
  function.as_dict().set("arguments", arguments);
  Value value = context.new_dict();
  value.as_dict().set("id", Value::input(ids.next(call)));
  value.as_dict().set("type", Value::input("function"));
  value.as_dict().set("function", function);
  return value;
}

/// Some templates build names of control tokens from the role ("<|" + role + "|>"). The usual roles are harmless words,
/// so they count as the template's own; any other text does not.
Value make_role(const std::string& role) {
  const bool usual = role == "system" || role == "user" || role == "assistant" || role == "tool";
  return Value::string(Text(role, usual));
}

Value make_messages(Context& context, std::span<const ChatMessage> messages, ArgumentStyle style) {
  std::vector<Value> list;
  ToolCallIds ids;
  for (const ChatMessage& message : messages) {
    const Value value = context.new_dict();
    Dict& dict = value.as_dict();
    dict.set("role", make_role(message.role));
    dict.set("content", Value::input(message.content));
    if (!message.name.empty()) dict.set("name", Value::input(message.name));
    if (!message.reasoning_content.empty()) dict.set("reasoning_content", Value::input(message.reasoning_content));
    if (!message.tool_calls.empty()) {
      std::vector<Value> calls;
      for (const ToolCall& call : message.tool_calls) calls.push_back(make_tool_call(context, call, ids, style));
      dict.set("tool_calls", context.new_list(std::move(calls)));
    }
    if (message.role == "tool")
      dict.set("tool_call_id", message.tool_call_id.empty() ? Value::none() : Value::input(message.tool_call_id));
    list.push_back(value);
  }
  return context.new_list(std::move(list));
}

/// The variables that transformers gives to a template.
Dict make_variables(Context& context, const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                    bool add_generation_prompt, std::string_view tools_json, ArgumentStyle style) {
  Dict variables;
  variables.set("messages", make_messages(context, messages, style));
  variables.set("tools", parse_tools(context, tools_json));
  variables.set("documents", Value::none());
  variables.set("add_generation_prompt", Value::boolean(add_generation_prompt));
  const auto set_token = [&](std::string_view name, std::optional<int32_t> id) {
    if (id) variables.set(name, Value::string(Text(std::string(tokenizer.piece(*id)), true)));
  };
  set_token("bos_token", tokenizer.vocabulary().bos);
  set_token("eos_token", tokenizer.vocabulary().eos);
  set_token("pad_token", tokenizer.vocabulary().pad);
  return variables;
}

/// More steps for longer conversations: going through all of them some times must always be possible.
jinja::Limits limits_for(std::span<const ChatMessage> messages, std::string_view tools_json) {
  jinja::Limits limits;
  limits.max_steps += tools_json.size();
  for (const ChatMessage& message : messages) {
    limits.max_steps += message.content.size() + message.reasoning_content.size();
    for (const ToolCall& call : message.tool_calls) limits.max_steps += call.arguments.size();
  }
  return limits;
}

Text render_template(const jinja::Template& source, const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                     bool add_generation_prompt, std::string_view tools_json, ArgumentStyle style) {
  Context context(limits_for(messages, tools_json));
  const Dict variables = make_variables(context, tokenizer, messages, add_generation_prompt, tools_json, style);
  return source.render(context, variables);
}

/// Throws what the template throws for the simplest conversation, unless it refuses that on purpose.
void check_template(const jinja::Template& source, const Tokenizer& tokenizer) {
  const std::vector<ChatMessage> messages{{.role = "user", .content = "Hi"}};
  try {
    (void)render_template(source, tokenizer, messages, true, {}, ArgumentStyle::kText);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
  }
}

/// Some templates write the arguments with tojson whatever they are, which would quote text a second time, and some go
/// through them as an object. Those get an object; the others the text, which then stays as the model wrote it.
ArgumentStyle find_argument_style(const jinja::Template& source, const Tokenizer& tokenizer) {
  const ToolCall call{.id = "functions.f:0", .name = "f", .arguments = R"({"probe": "value"})"};
  const std::vector<ChatMessage> messages{
      {.role = "user", .content = "Hi"},
      {.role = "assistant", .tool_calls = {call}},
      {.role = "tool", .content = "result", .tool_call_id = call.id},
  };
  const auto works = [&](ArgumentStyle style) {
    try {
      const Text text = render_template(source, tokenizer, messages, false, {}, style);
      return text.bytes().find("probe") != std::string::npos && text.bytes().find(R"(\"probe\")") == std::string::npos;
    } catch (const Error&) {
      return false;
    }
  };
  if (works(ArgumentStyle::kText) || !works(ArgumentStyle::kObject)) return ArgumentStyle::kText;
  return ArgumentStyle::kObject;
}

bool has_built_in_tokens(const Tokenizer& tokenizer) {
  for (const char* name : {"<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>", "<|im_system|>"}) {
    if (!tokenizer.find_special(name)) return false;
  }
  return true;
}

}  // namespace

struct ChatFormat::Impl {
  explicit Impl(const Tokenizer& t) : tokenizer(t), encoder(t) {}
  const Tokenizer& tokenizer;
  PromptEncoder encoder;
  std::optional<jinja::Template> source;  // nullopt: the built-in format
  ArgumentStyle argument_style = ArgumentStyle::kText;
};

ChatFormat::ChatFormat() = default;
ChatFormat::~ChatFormat() = default;

std::unique_ptr<ChatFormat> ChatFormat::create(const Tokenizer& tokenizer, std::string_view template_text) {
  if (template_text.empty() && !has_built_in_tokens(tokenizer)) return nullptr;
  std::unique_ptr<ChatFormat> format(new ChatFormat());
  format->impl_ = std::make_unique<Impl>(tokenizer);
  if (!template_text.empty()) {
    const jinja::Template& source = format->impl_->source.emplace(template_text);
    check_template(source, tokenizer);
    format->impl_->argument_style = find_argument_style(source, tokenizer);
  }
  return format;
}

RenderedPrompt ChatFormat::render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                  std::string_view tools_json) const {
  if (impl_->source) {
    return impl_->encoder.encode(render_template(*impl_->source, impl_->tokenizer, messages, add_generation_prompt,
                                                 tools_json, impl_->argument_style));
  }
  Context context(limits_for(messages, tools_json));
  return impl_->encoder.encode(render_built_in(context, messages, add_generation_prompt, tools_json));
}

std::string_view ChatFormat::source() const noexcept { return impl_->source ? "template of the model" : "built-in"; }

}  // namespace kda
