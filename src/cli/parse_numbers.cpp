#include "cli/parse_numbers.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "cli/text.h"

namespace kda::cli {

namespace {

constexpr size_t kMostNumbers = 1000;

/// Takes a number from the front of text; false where there is none.
bool take_number(std::string_view& text, int64_t& value) {
  if (text.empty() || text.front() == '-') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

struct Range {
  int64_t first = 0;
  int64_t last = 0;
  int64_t step = 1;  // added, or a factor
  bool factor = false;
};

/// "3", "1-4", "0-8+2", "1-8*2". False for anything else, and for ranges that go nowhere.
bool parse_range(std::string_view text, Range& range) {
  if (!take_number(text, range.first)) return false;
  range.last = range.first;
  if (text.empty()) return true;
  if (!take(text, '-') || !take_number(text, range.last) || range.last < range.first) return false;
  if (text.empty()) return true;
  range.factor = text.front() == '*';
  if (!take(text, range.factor ? '*' : '+') || !take_number(text, range.step) || !text.empty()) return false;
  return range.factor ? range.step >= 2 && range.first >= 1 : range.step >= 1;
}

}  // namespace

std::vector<int64_t> parse_numbers(std::string_view text, const std::string& subject, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  for (std::string_view rest = text;;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    Range range;
    if (!parse_range(part, range)) {
      fail(ErrorCode::kUsage, "{}: expected numbers as in 512,4096 or 1-4 or 128-1024*2 or 0-3000+1000, found {}",
           subject, quote(text));
    }
    if (range.first < least || range.last > most) {
      fail(ErrorCode::kUsage, "{}: expected {} to {}, found {}", subject, least, most,
           range.first < least ? range.first : range.last);
    }
    for (int64_t n = range.first; n <= range.last;) {
      if (std::ranges::find(numbers, n) == numbers.end()) numbers.push_back(n);
      if (numbers.size() > kMostNumbers) {
        fail(ErrorCode::kUsage, "{}: more than {} numbers", subject, kMostNumbers);
      }
      if (range.step > (range.factor ? range.last / n : range.last - n)) break;
      n = range.factor ? n * range.step : n + range.step;
    }
    if (part.size() == rest.size()) return numbers;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace kda::cli
