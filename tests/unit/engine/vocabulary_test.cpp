#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "chat/chat_format.h"
#include "tokenizer/tokenizer.h"
#include "unit/engine/engine_support.h"

namespace kda {
namespace {

namespace fs = std::filesystem;

// The demo model, whose small files may be replaced.
class DemoModel : public testing::Test {
 protected:
  DemoModel() {
    for (const auto& entry : fs::directory_iterator(fs::path(KDA_SOURCE_DIR) / "models" / "demo")) {
      const fs::path to = folder_.path() / entry.path().filename();
      if (entry.path().extension() == ".safetensors") {
        fs::create_symlink(entry.path(), to);
      } else {
        fs::copy_file(entry.path(), to);
      }
    }
  }
  void write(const char* name, const char* text) { std::ofstream(folder_.path() / name) << text; }
  std::unique_ptr<Engine> open() { return test::open_engine(folder_.path(), {.threads = 1}); }
  static bool warns(const Engine& engine, const char* text) {
    for (const std::string& warning : engine.warnings()) {
      if (warning.find(text) != std::string::npos) return true;
    }
    return false;
  }

  test::TempFolder folder_;
};

TEST_F(DemoModel, BringsItsVocabularyAndChatFormat) {
  const auto engine = open();
  ASSERT_TRUE(engine->has_tokenizer());
  const auto ids = engine->tokenizer().encode("hello there");
  EXPECT_EQ(engine->tokenizer().decode(ids), "hello there");
  ASSERT_NE(engine->chat_format(), nullptr);
  const ChatMessage message = {.role = "user", .content = "hi", .name = {}, .tool_calls = {}, .tool_call_id = {}};
  EXPECT_FALSE(engine->chat_format()->render({&message, 1}, true).ids.empty());
}

TEST_F(DemoModel, ATemplateThatCannotBeUsedIsToldAndReplaced) {
  write("chat_template.jinja", "{% nonsense %}");
  const auto engine = open();
  ASSERT_NE(engine->chat_format(), nullptr);
  EXPECT_EQ(engine->chat_format()->source(), "built-in");
  EXPECT_TRUE(warns(*engine, "chat template cannot be used")) << testing::PrintToString(engine->warnings());
}

TEST_F(DemoModel, ABrokenVocabularyIsToldAndTheModelStillRunsOnIds) {
  write("tiktoken.model", "not a vocabulary\n");
  const auto engine = open();
  EXPECT_FALSE(engine->has_tokenizer());
  EXPECT_EQ(engine->chat_format(), nullptr);
  EXPECT_TRUE(warns(*engine, "vocabulary cannot be used"));
  const auto sequence = engine->new_sequence(10);
  sequence->feed(test::some_ids(5));
  EXPECT_FALSE(sequence->logits().empty());
}

TEST(EngineVocabulary, WithoutOneTextIsRefusedWithTheReason) {
  const test::TempFolder folder;
  test::TinyModel().write_folder(folder.path());
  const auto engine = test::open_engine(folder.path(), {.threads = 1});
  EXPECT_FALSE(engine->has_tokenizer());
  EXPECT_EQ(engine->chat_format(), nullptr);
  try {
    (void)engine->tokenizer();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(e.what()).find("tiktoken.model"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kda
