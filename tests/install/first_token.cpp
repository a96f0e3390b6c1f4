// The smallest program on the installed library: the first token of an answer.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "chat/chat_format.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const auto engine = kda::Engine::open(argv[1], {}, [](const char*) { return std::string(); });
    const auto sequence = engine->new_sequence(512);
    const kda::ChatMessage question{.role = "user", .content = "Who are you?"};
    sequence->feed(engine->chat_format()->render({&question, 1}, true).ids);
    const auto logits = sequence->logits();
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    std::printf("%s\n", std::string(engine->tokenizer().piece(static_cast<int32_t>(best))).c_str());
  } catch (const kda::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
