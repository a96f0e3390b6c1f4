// The inputs of the fuzzer for templates, replayed.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "chat/jinja/json.h"
#include "chat/jinja/template.h"
#include "formats/json.h"

namespace kda::jinja {
namespace {

TEST(JinjaTemplate, EveryInputOfTheFuzzerEndsInTextOrAnError) {
  int n_texts = 0;
  int n_errors = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(KDA_SOURCE_DIR) / "fuzz" / "corpus" / "template")) {
    Context context({.max_steps = 20'000, .max_output_bytes = size_t{1} << 20, .max_depth = 200});
    const Value variables = kda::jinja::parse_json(
        context, R"({"messages": [{"role": "user", "content": "Hi"}], "n": 3, "s": "a-b", "t": true})", "variables");
    try {
      const Template parsed(read_text_file(entry.path(), size_t{1} << 20));
      (void)parsed.render(context, variables.as_dict());
      ++n_texts;
    } catch (const Error&) {
      ++n_errors;
    }
  }
  EXPECT_GT(n_texts, 5);
  EXPECT_GT(n_errors, 5);
}

}  // namespace
}  // namespace kda::jinja
