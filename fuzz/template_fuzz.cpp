// Any bytes as a chat template, with one conversation: it gives text or throws Error, within its limits, and what the
// conversation says never counts as written by the template.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "chat/jinja/json.h"
#include "chat/jinja/template.h"

namespace {

using namespace kda::jinja;

// The byte 2 stands in every string, and nowhere in a template that can be judged by it.
constexpr std::string_view kVariables = R"({
  "messages": [
    {"role": "system\u0002", "content": "\u0002Be brief.\n \u0002"},
    {"role": "user", "content": " \u0002 a-b c\u0002 ", "name\u0002": "ann\u0002"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c\u0002", "type": "function", "function":
      {"name": "f\u0002", "arguments": {"x\u0002": [1, -2.5, true, null, "\u5929\u0002"]}}}]},
    {"role": "tool", "content": "\u0002", "tool_call_id": "c\u0002"}],
  "tools": [{"type": "function", "function": {"name": "f\u0002", "parameters": {}}}],
  "add_generation_prompt": true, "n": 3, "x": 0.5, "s": "\u0002s", "nothing": null})";

void check_origins(const Text& text, bool judge) {
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    if (run.end <= begin) __builtin_trap();
    const auto part = std::string_view(text.bytes()).substr(begin, run.end - begin);
    if (judge && run.from_template && part.find('\2') != part.npos) __builtin_trap();
    begin = run.end;
  }
  if (begin != text.size()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  Context context({.max_steps = 20'000, .max_output_bytes = size_t{1} << 20, .max_depth = 200});
  const Value variables = parse_json(context, kVariables, "variables");
  try {
    const Template parsed(source);
    const bool judge = source.find_first_of("\2\\") == source.npos;  // an escape may write the byte too
    check_origins(parsed.render(context, variables.as_dict()), judge);
  } catch (const kda::Error&) {  // what bad input is met with
  }
  return 0;
}
