#include "base/xxhash64.h"

#include <gtest/gtest.h>

#include <string_view>

namespace kda {
namespace {

uint64_t hash(std::string_view text) { return xxhash64(std::as_bytes(std::span(text))); }

// Values of the reference implementation's own tests and documentation.
TEST(XxHash64, GivesThePublishedValues) {
  EXPECT_EQ(hash(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(hash("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(hash("abc"), 0x44BC2CF5AD770999U);
  EXPECT_EQ(hash("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1U);
}

TEST(XxHash64, DoesNotDependOnTheCuts) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i * 7);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    XxHash64 h;
    h.update(std::as_bytes(std::span(text).first(cut)));
    h.update(std::as_bytes(std::span(text).subspan(cut)));
    ASSERT_EQ(h.digest(), hash(text)) << cut;
  }
}

}  // namespace
}  // namespace kda
