#include "engine/generate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace kda {
namespace {

std::string no_environment(const char*) { return {}; }

class Generate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine_ = Engine::open(std::string(KDA_SOURCE_DIR) + "/models/demo", {.threads = 1}, no_environment);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  Generate() {
    options.sampling.temperature = 0;
    sequence = engine_->new_sequence(256);
  }
  RenderedPrompt render(std::vector<ChatMessage> messages) const {
    return engine_->chat_format()->render(messages, true);
  }
  static ChatMessage message(const char* role, std::string content) {
    ChatMessage out;
    out.role = role;
    out.content = std::move(content);
    return out;
  }
  Generation run(const RenderedPrompt& prompt) {
    return generate(*sequence, engine_->tokenizer(), prompt.ids, prompt.borders, options, callbacks);
  }

  static std::unique_ptr<Engine> engine_;
  std::unique_ptr<Sequence> sequence;
  GenerateOptions options;
  GenerateCallbacks callbacks;
};

std::unique_ptr<Engine> Generate::engine_;

TEST_F(Generate, EndsAtTheEndTokenAndGivesTheTextOnce) {
  std::string shown;
  callbacks.text = [&](std::string_view text) { shown += text; };
  const RenderedPrompt prompt = render({message("user", "What is 27+15?")});
  const Generation g = run(prompt);
  EXPECT_EQ(g.text, "42");
  EXPECT_EQ(shown, g.text);
  EXPECT_EQ(g.finish_reason, FinishReason::kStop);
  EXPECT_EQ(engine_->tokenizer().decode(g.ids), "42");
  EXPECT_EQ(g.prompt_tokens, static_cast<int64_t>(prompt.ids.size()));
  EXPECT_EQ(g.cached_tokens, 0);
  EXPECT_EQ(g.steps, static_cast<int64_t>(g.ids.size()));
  EXPECT_FALSE(g.context_full);
}

TEST_F(Generate, GuessesFromEarlierTextChangeNoToken) {
  const auto guessing =
      Engine::open(std::string(KDA_SOURCE_DIR) + "/models/demo", {.threads = 1, .max_guesses = 15}, no_environment);
  options.max_tokens = 60;
  options.ignore_eos = true;
  int64_t n_right = 0;
  for (const float temperature : {0.0F, 0.8F}) {
    options.sampling.temperature = temperature;
    options.sampling.seed = 5;
    for (const char* question : {"Repeat: one two three four one two three four", "What is 27+15?"}) {
      const RenderedPrompt prompt = render({message("user", question)});
      const Generation plain = run(prompt);
      const auto other = guessing->new_sequence(256);
      const Generation g = generate(*other, guessing->tokenizer(), prompt.ids, prompt.borders, options, callbacks);
      EXPECT_EQ(g.ids, plain.ids) << question;
      EXPECT_EQ(g.steps, plain.steps);
      EXPECT_EQ(plain.guesses, 0);
      EXPECT_LE(g.right_guesses, g.guesses);
      EXPECT_EQ(other->size(), sequence->size());
      n_right += g.right_guesses;
    }
  }
  EXPECT_GT(n_right, 0);
}

TEST_F(Generate, CountsMaxTokens) {
  options.max_tokens = 2;
  const RenderedPrompt prompt = render({message("user", "Who are you?")});
  const Generation g = run(prompt);
  EXPECT_EQ(g.ids.size(), 2U);
  EXPECT_EQ(g.steps, 1);
  EXPECT_EQ(g.finish_reason, FinishReason::kLength);
  options.max_tokens = 0;
  EXPECT_TRUE(run(prompt).ids.empty());
  options.max_tokens = -2;
  EXPECT_THROW(static_cast<void>(run(prompt)), Error);
}

TEST_F(Generate, CutsAtAStopStringThatTokensShare) {
  const RenderedPrompt prompt = render({message("user", "Who are you?")});
  const std::string whole = run(prompt).text;
  const std::string stop = whole.substr(3, 6);
  std::string shown;
  callbacks.text = [&](std::string_view text) { shown += text; };
  options.stop = {stop};
  const Generation g = run(prompt);
  EXPECT_EQ(g.text, whole.substr(0, 3));
  EXPECT_EQ(shown, g.text);
  EXPECT_EQ(g.finish_reason, FinishReason::kStop);
}

TEST_F(Generate, GoesOnPastTheEndUntilTheContextIsFull) {
  options.ignore_eos = true;
  sequence = engine_->new_sequence(40);
  const RenderedPrompt prompt = render({message("user", "What is 27+15?")});
  const Generation g = run(prompt);
  EXPECT_EQ(g.finish_reason, FinishReason::kLength);
  EXPECT_TRUE(g.context_full);
  EXPECT_EQ(g.prompt_tokens + g.steps, 40);
}

TEST_F(Generate, RefusesAPromptThatIsTooLongOrEmptyBeforeAnyWork) {
  bool worked = false;
  callbacks.progress = [&](int64_t, int64_t) { return worked = true; };
  const std::vector<int32_t> ids(257, 1);
  EXPECT_THROW(static_cast<void>(generate(*sequence, engine_->tokenizer(), ids, {}, options, callbacks)), Error);
  EXPECT_THROW(static_cast<void>(generate(*sequence, engine_->tokenizer(), {}, {}, options, callbacks)), Error);
  EXPECT_FALSE(worked);
  EXPECT_EQ(sequence->size(), 0);
}

TEST_F(Generate, AnInterruptionLeavesTheSequenceUsable) {
  const RenderedPrompt prompt = render({message("user", "Who are you?")});
  const std::string whole = run(prompt).text;
  int tokens = 0;
  callbacks.keep_going = [&] { return ++tokens <= 3; };
  const Generation cut = run(prompt);
  EXPECT_EQ(cut.finish_reason, FinishReason::kInterrupted);
  EXPECT_EQ(cut.ids.size(), 3U);
  EXPECT_TRUE(whole.starts_with(cut.text));
  callbacks = {};
  EXPECT_EQ(run(prompt).text, whole);

  callbacks.progress = [](int64_t, int64_t) { return false; };
  sequence->clear();
  const Generation none = run(prompt);
  EXPECT_EQ(none.finish_reason, FinishReason::kInterrupted);
  EXPECT_TRUE(none.ids.empty());
  callbacks = {};
  EXPECT_EQ(run(prompt).text, whole);
}

TEST_F(Generate, TheNextTurnReusesAllOfTheLast) {
  const RenderedPrompt first = render({message("user", "Remember apple=42, river=17. What is river?")});
  const Generation one = run(first);
  const std::vector<ChatMessage> messages = {message("user", "Remember apple=42, river=17. What is river?"),
                                             message("assistant", one.text), message("user", "What is apple?")};
  const RenderedPrompt second = render(messages);
  const Generation two = run(second);
  EXPECT_EQ(two.cached_tokens, one.prompt_tokens + static_cast<int64_t>(one.ids.size()));
  const Generation again = run(second);
  EXPECT_EQ(again.text, two.text);
}

class ReuseSampledIds : public Generate {
 protected:
  /// The same text one byte a token: ids that no encoding gives.
  std::vector<int32_t> by_bytes(std::string_view text) const {
    std::vector<int32_t> out;
    for (const char c : text) out.push_back(engine_->tokenizer().encode(std::string_view(&c, 1)).front());
    return out;
  }
};

TEST_F(ReuseSampledIds, TakesTheirPlaceAndMovesBorders) {
  const std::vector<ChatMessage> messages = {message("user", "Who are you?"), message("assistant", "a tiny model"),
                                             message("user", "Thank you")};
  const RenderedPrompt plain = render(messages);
  RenderedPrompt prompt = plain;
  const std::vector<int32_t> bytes = by_bytes("a tiny model");
  const std::vector<std::vector<int32_t>> sampled = {{}, bytes, {}};
  reuse_sampled_ids(prompt, messages, sampled, engine_->tokenizer());
  const auto grown = static_cast<int64_t>(bytes.size() - engine_->tokenizer().encode("a tiny model").size());
  ASSERT_GT(grown, 0);
  EXPECT_EQ(prompt.ids.size(), plain.ids.size() + static_cast<size_t>(grown));
  EXPECT_EQ(engine_->tokenizer().decode(prompt.ids, true), engine_->tokenizer().decode(plain.ids, true));
  ASSERT_EQ(prompt.borders.size(), 3U);
  EXPECT_EQ(prompt.borders[0], plain.borders[0]);
  EXPECT_EQ(prompt.borders[1], plain.borders[1] + grown);
  EXPECT_EQ(prompt.borders[2], plain.borders[2] + grown);
}

TEST_F(ReuseSampledIds, LeavesIdsOfAnotherTextAlone) {
  const std::vector<ChatMessage> messages = {message("user", "Who are you?"), message("assistant", "a tiny model"),
                                             message("user", "Thank you")};
  const RenderedPrompt plain = render(messages);
  RenderedPrompt prompt = plain;
  const std::vector<std::vector<int32_t>> sampled = {{}, by_bytes("a tiny model and a stop string"), {}};
  reuse_sampled_ids(prompt, messages, sampled, engine_->tokenizer());
  EXPECT_EQ(prompt.ids, plain.ids);
  EXPECT_EQ(prompt.borders, plain.borders);
}

}  // namespace
}  // namespace kda
