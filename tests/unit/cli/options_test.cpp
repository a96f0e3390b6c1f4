#include "cli/options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kda::cli {
namespace {

/// A command line with every shared option and a PROMPT.
struct Parsed {
  ModelArgs model;
  SamplingArgs sampling;
  std::string prompt;
  CLI::App app{"test"};

  Parsed() {
    add_model_options(app, model);
    app.add_option("PROMPT", prompt);
    add_sampling_options(app, sampling);
  }
  /// Words as a shell gives them.
  void parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    app.parse(words);
  }
};

TEST(Options, HaveTheDefaultsThatHelpNames) {
  Parsed p;
  p.parse({"m.gguf"});
  EXPECT_EQ(p.model.model, "m.gguf");
  EXPECT_EQ(p.model.engine.threads, 0);
  EXPECT_EQ(p.model.engine.batch_tokens, EngineOptions{}.batch_tokens);
  EXPECT_EQ(p.model.context, 0);
  EXPECT_FLOAT_EQ(p.sampling.generate.sampling.temperature, 0.6F);
  EXPECT_FLOAT_EQ(p.sampling.generate.sampling.top_p, 0.95F);
  EXPECT_EQ(p.sampling.generate.max_tokens, -1);
  EXPECT_FALSE(p.sampling.seed.has_value());
  const std::string help = p.app.help();
  for (const char* text : {"(default: 0.6)", "(default: 0.95)", "KDA_ISA"}) {
    EXPECT_NE(help.find(text), std::string::npos) << text;
  }
}

TEST(Options, ReadEveryValue) {
  Parsed p;
  p.parse({"m",
           "--threads",
           "3",
           "--threads-prompt",
           "5",
           "--isa=scalar",
           "--batch",
           "7",
           "--ctx",
           "99",
           "-q",
           "--max-tokens",
           "5",
           "--temperature",
           "0",
           "--top-k",
           "40",
           "--top-p",
           "0.5",
           "--min-p",
           "0.1",
           "--repeat-penalty",
           "1.1",
           "--presence-penalty",
           "-0.5",
           "--frequency-penalty",
           "0.25",
           "--seed",
           "18446744073709551615",
           "--ignore-eos"});
  EXPECT_EQ(p.model.engine.threads, 3);
  EXPECT_EQ(p.model.engine.threads_prompt, 5);
  EXPECT_EQ(p.model.engine.isa, "scalar");
  EXPECT_EQ(p.model.engine.batch_tokens, 7);
  EXPECT_EQ(p.model.context, 99);
  EXPECT_TRUE(p.model.quiet);
  const GenerateOptions g = p.sampling.resolve();
  EXPECT_EQ(g.max_tokens, 5);
  EXPECT_EQ(g.sampling.temperature, 0.0F);
  EXPECT_EQ(g.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(g.sampling.top_p, 0.5F);
  EXPECT_FLOAT_EQ(g.sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(g.sampling.repeat_penalty, 1.1F);
  EXPECT_FLOAT_EQ(g.sampling.presence_penalty, -0.5F);
  EXPECT_FLOAT_EQ(g.sampling.frequency_penalty, 0.25F);
  EXPECT_EQ(g.sampling.seed, 18446744073709551615U);
  EXPECT_TRUE(g.ignore_eos);
}

TEST(Options, StopTakesOneTextAtATimeAndLeavesThePromptAlone) {
  Parsed p;
  p.parse({"m", "--stop", "a b", "--stop", "[x,y]", "[prompt, in brackets]"});
  EXPECT_EQ(p.sampling.generate.stop, (std::vector<std::string>{"a b", "[x,y]"}));
  EXPECT_EQ(p.prompt, "[prompt, in brackets]");
}

TEST(Options, TakeADashAndWhatFollowsTwoDashesAsPrompt) {
  Parsed dash;
  dash.parse({"m", "-"});
  EXPECT_EQ(dash.prompt, "-");
  Parsed after;
  after.parse({"m", "--", "--help"});
  EXPECT_EQ(after.prompt, "--help");
}

TEST(Options, RefuseValuesOutOfRange) {
  const std::vector<std::vector<std::string>> wrong = {{"m", "--threads", "0"},
                                                       {"m", "--threads", "-1"},
                                                       {"m", "--threads", "x"},
                                                       {"m", "--batch", "0"},
                                                       {"m", "--threads-prompt", "0"},
                                                       {"m", "--ctx", "0"},
                                                       {"m", "--ctx", "1e3"},
                                                       {"m", "--max-tokens", "-2"},
                                                       {"m", "--seed", "-1"},
                                                       {"m", "--seed", "x"},
                                                       {"m", "--top-k"},
                                                       {"m", "--nonsense"},
                                                       {},
                                                       {"m", "--quiet", "--verbose"}};
  for (const auto& words : wrong) {
    Parsed p;
    EXPECT_THROW(p.parse(words), CLI::ParseError) << (words.empty() ? "no model" : words.back());
  }
  for (const char* temperature : {"-1", "nan", "inf"}) {
    Parsed p;
    p.parse({"m", "--temperature", temperature});
    EXPECT_THROW(static_cast<void>(p.sampling.resolve()), Error) << temperature;
  }
}

TEST(Options, DrawASeedWhereNoneIsGiven) {
  const SamplingArgs args;
  EXPECT_NE(args.resolve().sampling.seed, args.resolve().sampling.seed);
}

}  // namespace
}  // namespace kda::cli
