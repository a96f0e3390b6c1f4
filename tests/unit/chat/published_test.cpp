// Templates, renderings and token counts that others published; they lie beside the repository.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "chat/chat_format.h"
#include "chat/jinja/json.h"
#include "chat/jinja/template.h"
#include "formats/json.h"
#include "support/shared_data.h"
#include "tokenizer/folder_vocabulary.h"

namespace kda {
namespace {

std::string read(const std::filesystem::path& path) { return read_text_file(path, size_t{16} << 20); }

const Tokenizer& kimi_tokenizer(const std::filesystem::path& shared) {
  const auto folder = shared / "data" / "tokenizer";
  static const Tokenizer kTokenizer(make_folder_vocabulary(
      read(folder / "tiktoken.model"), read(folder / "tokenizer_config.reconstructed.json"), 163840, folder.string()));
  return kTokenizer;
}

/// nullopt for a conversation that ChatMessage cannot hold: content in parts.
std::optional<std::vector<ChatMessage>> messages_of(const OrderedJson& list) {
  std::vector<ChatMessage> messages;
  for (const auto& item : list) {
    if (!item["content"].is_string()) return std::nullopt;
    ChatMessage message{.role = item["role"], .content = item["content"]};
    message.reasoning_content = item.value("reasoning_content", "");
    if (item.contains("tool_call_id") && item["tool_call_id"].is_string()) message.tool_call_id = item["tool_call_id"];
    for (const auto& call : item.value("tool_calls", OrderedJson::array()))
      message.tool_calls.push_back({call["id"], call["function"]["name"], call["function"]["arguments"]});
    messages.push_back(std::move(message));
  }
  return messages;
}

constexpr const char* kTemplates[] = {"kimi-k2-instruct-0905.reassembled.jinja", "kimi-k2-thinking.chat_template.jinja",
                                      "kimi-linear.chat_template.GUESS.jinja"};

TEST(PublishedChat, EveryTemplateGivesTheTextThatJinja2Gives) {
  KDA_SHARED_OR_SKIP(shared);
  const auto folder = shared / "data" / "chat";
  const OrderedJson data = OrderedJson::parse(read(folder / "rendered-by-jinja2.json"));
  for (const char* name : kTemplates) {
    const jinja::Template source(read(folder / name));
    for (const auto& item : data["cases"]) {
      const OrderedJson variables{{"messages", item["messages"]},
                                  {"tools", item["tools"]},
                                  {"add_generation_prompt", item["add_generation_prompt"]}};
      jinja::Context context;
      const jinja::Value values = jinja::parse_json(context, variables.dump(), "variables");
      EXPECT_EQ(source.render(context, values.as_dict()).bytes(),
                data["renderings"][name][item["name"].get<std::string>()].get<std::string>())
          << name << ' ' << item["name"];
    }
  }
}

TEST(PublishedChat, ChatFormatGivesTheSameTextAndTheIdsOfIt) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = kimi_tokenizer(shared);
  const auto folder = shared / "data" / "chat";
  const OrderedJson data = OrderedJson::parse(read(folder / "rendered-by-jinja2.json"));
  int n_checked = 0;
  for (const char* name : kTemplates) {
    const auto format = ChatFormat::create(tokenizer, read(folder / name));
    for (const auto& item : data["cases"]) {
      const auto messages = messages_of(item["messages"]);
      if (!messages) continue;
      const RenderedPrompt prompt =
          format->render(*messages, item["add_generation_prompt"], item["tools"].is_null() ? "" : item["tools"].dump());
      EXPECT_EQ(prompt.text, data["renderings"][name][item["name"].get<std::string>()].get<std::string>())
          << name << ' ' << item["name"];
      EXPECT_EQ(prompt.ids, tokenizer.encode(prompt.text, true)) << name << ' ' << item["name"];
      ++n_checked;
    }
  }
  EXPECT_EQ(n_checked, 21);
}

TEST(PublishedChat, TheBuiltInFormatIsThatOfKimiLinear) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = kimi_tokenizer(shared);
  const auto format = ChatFormat::create(tokenizer, "");
  ASSERT_NE(format, nullptr);
  const OrderedJson data = OrderedJson::parse(read(shared / "data" / "chat" / "rendered-by-jinja2.json"));
  for (const auto& item : data["cases"]) {
    const auto messages = messages_of(item["messages"]);
    if (!messages) continue;
    // The built-in format sorts the keys of tools; the file has them in the order of the request.
    const bool sorted = Json::parse(item["tools"].dump()).dump() == item["tools"].dump();
    if (!sorted) continue;
    const std::string tools = item["tools"].is_null() ? "" : item["tools"].dump();
    EXPECT_EQ(format->render(*messages, item["add_generation_prompt"], tools).text,
              data["renderings"][kTemplates[2]][item["name"].get<std::string>()].get<std::string>())
        << item["name"];
  }
}

TEST(PublishedChat, KimiLinearsPromptsHaveThePublishedTokens) {
  KDA_SHARED_OR_SKIP(shared);
  const Tokenizer& tokenizer = kimi_tokenizer(shared);
  const OrderedJson data = OrderedJson::parse(read(shared / "data" / "vectors" / "misc-published-ids.json"));
  const OrderedJson renderings = OrderedJson::parse(read(shared / "data" / "chat" / "golden-renderings.json"));
  for (const std::string& source : {std::string(), read(shared / "data" / "chat" / kTemplates[2])}) {
    const auto format = ChatFormat::create(tokenizer, source);
    for (const auto& item : data["chat_token_counts_published"]) {
      const RenderedPrompt prompt = format->render(*messages_of(item["messages"]), true);
      EXPECT_EQ(prompt.ids.size(), item["prompt_tokens_published"].get<size_t>());
      EXPECT_EQ(prompt.ids, item["ids_mine"].get<std::vector<int32_t>>());
      EXPECT_EQ(prompt.borders.size(), item["messages"].size());
    }
    int n_checked = 0;
    for (const auto& item : renderings["renderings"]) {
      if (!item.contains("messages")) continue;
      EXPECT_EQ(format->render(*messages_of(item["messages"]), true).text, item["text"].get<std::string>());
      ++n_checked;
    }
    EXPECT_EQ(n_checked, 3);
  }
}

TEST(PublishedChat, K2ThinkingsPublishedPromptComesOutWithoutItsDefaultSystemMessage) {
  KDA_SHARED_OR_SKIP(shared);
  const auto folder = shared / "data" / "chat";
  const OrderedJson data = OrderedJson::parse(read(folder / "rendered-by-jinja2.json"));
  const OrderedJson golden = OrderedJson::parse(read(folder / "golden-renderings.json"))["renderings"][0];
  const auto format = ChatFormat::create(kimi_tokenizer(shared), read(folder / kTemplates[1]));
  const OrderedJson& item = data["cases"].back();
  ASSERT_EQ(item["name"], "published-k2-thinking");
  std::string text = format->render(*messages_of(item["messages"]), true, item["tools"].dump()).text;
  const std::string added =
      "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>";
  const size_t at = text.find(added);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.erase(at, added.size()), golden["text"].get<std::string>());
}

}  // namespace
}  // namespace kda
