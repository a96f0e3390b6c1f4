#include "cli/parse_numbers.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace kda::cli {
namespace {

using Numbers = std::vector<int64_t>;

TEST(ParseNumbers, ReadsListsAndRangesInTheirOrder) {
  const auto parse = [](std::string_view text) { return parse_numbers(text, "--depth", 0, 100000); };
  EXPECT_EQ(parse("512"), (Numbers{512}));
  EXPECT_EQ(parse("512,4096,0"), (Numbers{512, 4096, 0}));
  EXPECT_EQ(parse("1-4"), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(parse("128-1024*2"), (Numbers{128, 256, 512, 1024}));
  EXPECT_EQ(parse("128-1000*2"), (Numbers{128, 256, 512}));
  EXPECT_EQ(parse("0-3000+1000,5"), (Numbers{0, 1000, 2000, 3000, 5}));
  EXPECT_EQ(parse("7-7"), (Numbers{7}));
  EXPECT_EQ(parse("2,1-3,2"), (Numbers{2, 1, 3}));
}

TEST(ParseNumbers, RefusesEverythingElseNamingTheOption) {
  for (const char* text : {"",   ",",   "1,",   ",1",    "a",     "1a",      "-1",
                           "1-", "4-1", "1-4+", "1-4+0", "1-4*1", "0-4*2",   "1-4/2",
                           " 1", "1 ",  "1--4", "1.5",   "+1",    "1-4*2*2", "99999999999999999999"}) {
    SCOPED_TRACE(text);
    test::expect_error(ErrorCode::kUsage, "--depth: expected",
                       [&] { (void)parse_numbers(text, "--depth", 0, 100000); });
  }
}

TEST(ParseNumbers, RefusesNumbersOutsideTheLimits) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto refuses = [](std::string_view text, int64_t least, int64_t most, const std::string& says) {
    test::expect_error(ErrorCode::kUsage, says, [&] { (void)parse_numbers(text, "--batch", least, most); });
  };
  refuses("0-4", 1, 8, "--batch: expected 1 to 8, found 0");
  refuses("1-9", 1, 8, "--batch: expected 1 to 8, found 9");
  refuses("0-5000", 0, kMost, "--batch: more than 1000");
  EXPECT_EQ(parse_numbers("1-9223372036854775807*4000000000", "--batch", 0, kMost), (Numbers{1, 4000000000}));
}

}  // namespace
}  // namespace kda::cli
