#include "cli/conversation.h"

#include <fmt/format.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "cli/output.h"

namespace kda::cli {

namespace {

constexpr std::string_view kFormatName = "kda chat";
constexpr int kFormatVersion = 1;

/// Fields of one JSON object, checked.
class Fields {
 public:
  Fields(const Json& json, std::string subject) : json_(json), subject_(std::move(subject)) {
    if (!json.is_object()) wrong("", "an object", json);
  }

  [[nodiscard]] const Json& need(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) fail(ErrorCode::kFormat, "{}: {} is missing", subject_, name);
    return *found;
  }
  [[nodiscard]] std::string need_text(const char* name) const {
    const Json& value = need(name);
    if (!value.is_string()) wrong(name, "text", value);
    return value.get<std::string>();
  }
  template <typename T>
  void read(const char* name, T& out) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    if constexpr (std::is_same_v<T, bool>) {
      if (!found->is_boolean()) wrong(name, "true or false", *found);
      out = found->get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!found->is_number()) wrong(name, "a number", *found);
      out = found->get<T>();
    } else {
      const bool fits = found->is_number_unsigned()
                            ? std::in_range<T>(found->get<uint64_t>())
                            : found->is_number_integer() && std::in_range<T>(found->get<int64_t>());
      if (!fits) wrong(name, "an integer in range", *found);
      out = found->get<T>();
    }
  }

  [[noreturn]] void wrong(const char* name, const char* expected, const Json& found) const {
    std::string text = found.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    fail(ErrorCode::kFormat, "{}{}{}: expected {}, found {}", subject_, *name == '\0' ? "" : ": ", name, expected,
         text);
  }

 private:
  const Json& json_;
  std::string subject_;
};

/// The double with the float's shortest digits: 0.6, not 0.6000000238418579.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace

ChatMessage make_message(std::string role, std::string content) {
  ChatMessage out;
  out.role = std::move(role);
  out.content = std::move(content);
  return out;
}

const std::string& Conversation::system() const noexcept {
  static const std::string none;
  return has_system() ? messages_.front().content : none;
}

size_t Conversation::n_turns() const noexcept { return (messages_.size() + (has_system() ? 0 : 1)) / 2; }

void Conversation::set_system(std::string text) {
  if (has_system()) {
    messages_.erase(messages_.begin());
    sampled_.erase(sampled_.begin());
  }
  if (text.empty()) return;
  messages_.insert(messages_.begin(), make_message("system", std::move(text)));
  sampled_.emplace(sampled_.begin());
}

void Conversation::add_question(std::string text) {
  messages_.push_back(make_message("user", std::move(text)));
  sampled_.emplace_back();
}

void Conversation::add_answer(std::string text, std::vector<int32_t> ids) {
  messages_.push_back(make_message("assistant", std::move(text)));
  sampled_.push_back(std::move(ids));
}

void Conversation::drop_last() {
  messages_.pop_back();
  sampled_.pop_back();
}

bool Conversation::drop_answer() {
  if (messages_.empty() || messages_.back().role != "assistant") return false;
  drop_last();
  return true;
}

std::string Conversation::drop_turn() {
  drop_answer();
  if (messages_.empty() || messages_.back().role != "user") return {};
  std::string question = std::move(messages_.back().content);
  drop_last();
  return question;
}

void Conversation::clear() {
  messages_.resize(has_system() ? 1 : 0);
  sampled_.resize(messages_.size());
}

std::string save_chat(const SavedChat& chat) {
  OrderedJson out;
  out["format"] = kFormatName;
  out["version"] = kFormatVersion;
  out["model"] = chat.model;
  out["messages"] = OrderedJson::array();
  for (const ChatMessage& message : chat.conversation.messages()) {
    out["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  const SamplerOptions& s = chat.options.sampling;
  out["options"] = {{"temperature", shortest(s.temperature)},
                    {"top_k", s.top_k},
                    {"top_p", shortest(s.top_p)},
                    {"min_p", shortest(s.min_p)},
                    {"repeat_penalty", shortest(s.repeat_penalty)},
                    {"presence_penalty", shortest(s.presence_penalty)},
                    {"frequency_penalty", shortest(s.frequency_penalty)},
                    {"seed", s.seed},
                    {"max_tokens", chat.options.max_tokens},
                    {"stop", chat.options.stop},
                    {"ignore_eos", chat.options.ignore_eos}};
  return json_text(out, 2) + '\n';
}

SavedChat load_chat(const Json& json, const std::string& subject, const GenerateOptions& defaults) {
  SavedChat out;
  const Fields top(json, subject);
  if (top.need_text("format") != kFormatName) top.wrong("format", "\"kda chat\"", top.need("format"));
  int64_t version = 0;
  top.read("version", version);
  if (version != kFormatVersion) {
    fail(ErrorCode::kUnsupported, "{}: version is {}, this program reads {}", subject, version, kFormatVersion);
  }
  out.model = top.need_text("model");

  const Json& messages = top.need("messages");
  if (!messages.is_array()) top.wrong("messages", "an array", messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const Fields message(messages[i], fmt::format("{}: message {}", subject, i + 1));
    const std::string role = message.need_text("role");
    std::string content = message.need_text("content");
    const bool system_first = i == 0 && role == "system";
    const bool question_next =
        (out.conversation.messages().size() - (out.conversation.system().empty() ? 0 : 1)) % 2 == 0;
    if (system_first) {
      out.conversation.set_system(std::move(content));
    } else if (question_next) {
      if (role != "user") message.wrong("role", "user", message.need("role"));
      out.conversation.add_question(std::move(content));
    } else {
      if (role != "assistant") message.wrong("role", "assistant", message.need("role"));
      out.conversation.add_answer(std::move(content), {});
    }
  }
  if (!out.conversation.messages().empty() && out.conversation.messages().back().role == "user") {
    fail(ErrorCode::kFormat, "{}: the last question has no answer", subject);
  }

  out.options = defaults;
  const auto found = json.find("options");
  if (found == json.end()) return out;
  const Fields options(*found, subject + ": options");
  SamplerOptions& s = out.options.sampling;
  options.read("temperature", s.temperature);
  options.read("top_k", s.top_k);
  options.read("top_p", s.top_p);
  options.read("min_p", s.min_p);
  options.read("repeat_penalty", s.repeat_penalty);
  options.read("presence_penalty", s.presence_penalty);
  options.read("frequency_penalty", s.frequency_penalty);
  options.read("seed", s.seed);
  options.read("max_tokens", out.options.max_tokens);
  options.read("ignore_eos", out.options.ignore_eos);
  if (out.options.max_tokens < -1) options.wrong("max_tokens", "-1 or more", options.need("max_tokens"));
  if (found->contains("stop")) {
    const Json& stop = options.need("stop");
    if (!stop.is_array()) options.wrong("stop", "an array of texts", stop);
    out.options.stop.clear();
    for (const Json& text : stop) {
      if (!text.is_string()) options.wrong("stop", "an array of texts", stop);
      out.options.stop.push_back(text.get<std::string>());
    }
  }
  validate(s);
  return out;
}

}  // namespace kda::cli
