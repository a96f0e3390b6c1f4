#include "cli/conversation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kda::cli {
namespace {

std::vector<std::string> texts(const Conversation& c) {
  std::vector<std::string> out;
  for (const ChatMessage& m : c.messages()) out.push_back(m.role + ": " + m.content);
  return out;
}

Conversation two_turns() {
  Conversation c;
  c.set_system("brief");
  c.add_question("q1");
  c.add_answer("a1", {1, 2});
  c.add_question("q2");
  c.add_answer("a2", {3});
  return c;
}

TEST(Conversation, UndoesTurnsAndAnswers) {
  Conversation c = two_turns();
  EXPECT_EQ(c.n_turns(), 2U);
  EXPECT_TRUE(c.drop_answer());
  EXPECT_EQ(texts(c).back(), "user: q2");
  EXPECT_FALSE(c.drop_answer());
  EXPECT_EQ(c.drop_turn(), "q2");
  EXPECT_EQ(c.drop_turn(), "q1");
  EXPECT_EQ(c.drop_turn(), "");
  EXPECT_EQ(texts(c), (std::vector<std::string>{"system: brief"}));
  EXPECT_EQ(c.n_turns(), 0U);
}

TEST(Conversation, ReplacesAndRemovesTheSystemMessage) {
  Conversation c = two_turns();
  c.set_system("other");
  EXPECT_EQ(texts(c).front(), "system: other");
  EXPECT_EQ(c.messages().size(), 5U);
  c.set_system("");
  EXPECT_EQ(texts(c).front(), "user: q1");
  EXPECT_EQ(c.sampled().size(), 4U);
  EXPECT_EQ(c.sampled()[1], (std::vector<int32_t>{1, 2}));
  c.clear();
  EXPECT_TRUE(c.messages().empty());
}

TEST(SavedChat, ComesBackAsItWas) {
  SavedChat chat;
  chat.model = "demo";
  chat.conversation = two_turns();
  chat.options.sampling.temperature = 0.3F;
  chat.options.sampling.seed = 18446744073709551615U;
  chat.options.stop = {"x", "y"};
  chat.options.max_tokens = 7;
  const std::string text = save_chat(chat);
  EXPECT_NE(text.find("\"temperature\": 0.3,"), std::string::npos) << text;
  const SavedChat back = load_chat(parse_json(text, "f"), "f", {});
  EXPECT_EQ(back.model, "demo");
  EXPECT_EQ(texts(back.conversation), texts(chat.conversation));
  EXPECT_EQ(back.options.sampling.temperature, 0.3F);
  EXPECT_EQ(back.options.sampling.seed, 18446744073709551615U);
  EXPECT_EQ(back.options.stop, chat.options.stop);
  EXPECT_EQ(back.options.max_tokens, 7);
}

TEST(SavedChat, RefusesWhatIsNoChatAndSaysWhy) {
  const auto message_of = [](const std::string& text) {
    try {
      static_cast<void>(load_chat(parse_json(text, "f"), "f", {}));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const std::string head = R"({"format": "kda chat", "version": 1, "model": "m", )";
  EXPECT_EQ(message_of("[]"), "f: expected an object, found []");
  EXPECT_EQ(message_of("{}"), "f: format is missing");
  EXPECT_EQ(message_of(R"({"format": "x"})"), "f: format: expected \"kda chat\", found \"x\"");
  EXPECT_EQ(message_of(R"({"format": "kda chat", "version": 2})"), "f: version is 2, this program reads 1");
  EXPECT_EQ(message_of(head + R"("messages": 1})"), "f: messages: expected an array, found 1");
  EXPECT_EQ(message_of(head + R"("messages": [1]})"), "f: message 1: expected an object, found 1");
  EXPECT_EQ(message_of(head + R"("messages": [{"role": "assistant", "content": ""}]})"),
            "f: message 1: role: expected user, found \"assistant\"");
  EXPECT_EQ(message_of(head + R"("messages": [{"role": "user", "content": 3}]})"),
            "f: message 1: content: expected text, found 3");
  EXPECT_EQ(message_of(head + R"("messages": [{"role": "user", "content": "q"}]})"),
            "f: the last question has no answer");
  EXPECT_EQ(message_of(head + R"("messages": [], "options": {"top_k": 3000000000}})"),
            "f: options: top_k: expected an integer in range, found 3000000000");
  EXPECT_EQ(message_of(head + R"("messages": [], "options": {"seed": -1}})"),
            "f: options: seed: expected an integer in range, found -1");
  EXPECT_EQ(message_of(head + R"("messages": [], "options": {"stop": [1]}})"),
            "f: options: stop: expected an array of texts, found [1]");
  EXPECT_NE(message_of(head + R"("messages": [], "options": {"temperature": -1}})"), "accepted");
  EXPECT_EQ(message_of(head + R"("messages": [], "options": {}})"), "accepted");
}

}  // namespace
}  // namespace kda::cli
