#include "formats/json.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "unit/formats/support.h"

namespace kda {
namespace {

using test::expect_error;
using test::TemporaryFolder;

TEST(Json, ReadsEveryKindOfValue) {
  const Json json = parse_json(
      R"( {"null": null, "yes": true, "int": -3, "big": 18446744073709551615, "float": 1.5e3, "text": "caf\u00e9\n",
           "list": [1, [], {}], "object": {"list": 1}, "": 0} )",
      "t");
  EXPECT_TRUE(json.at("null").is_null());
  EXPECT_EQ(json.at("yes"), true);
  EXPECT_EQ(json.at("int"), -3);
  EXPECT_EQ(json.at("big").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(json.at("float"), 1500.0);
  EXPECT_EQ(json.at("text"), "caf\xC3\xA9\n");
  EXPECT_EQ(json.at("list").size(), 3U);
  EXPECT_EQ(json.at("list")[1], Json::array());
  EXPECT_EQ(json.at("list")[2], Json::object());
  EXPECT_EQ(json.at("object").at("list"), 1);
  EXPECT_EQ(json.at(""), 0);
  EXPECT_EQ(json, Json::parse(json.dump()));
  EXPECT_EQ(parse_json("7", "t"), 7);
  EXPECT_EQ(parse_json("[]", "t"), Json::array());
}

TEST(Json, TakesIntegersBeyond64BitsAsFloats) {
  // tokenizer_config.json files say model_max_length 1000000000000000019884624838656 for "no limit"
  EXPECT_TRUE(parse_json("1000000000000000019884624838656", "t").is_number_float());
}

TEST(Json, ErrorsNameTheSubjectAndTheByte) {
  const auto refuses = [](std::string_view text, std::initializer_list<std::string_view> words) {
    expect_error(ErrorCode::kFormat, words, [&] { (void)parse_json(text, "config.json"); });
  };
  refuses(R"({"a": 1,})", {"config.json", "byte 9", "expected"});
  refuses(R"({"a": nul})", {"config.json", "byte 10"});
  refuses("", {"config.json", "byte 1", "end of input"});
  refuses("{}x", {"config.json", "byte 3"});
  refuses("{\"a\": \"\xFF\"}", {"config.json", "byte 8", "UTF-8"});
  refuses("[1e999]", {"config.json"});
  refuses("[NaN]", {"config.json"});
  refuses("[1] // comment", {"config.json"});
}

TEST(Json, ErrorsStayShort) {
  const std::string long_text(100'000, 'x');
  for (const std::string& text :
       {"\"" + long_text, "[\"" + long_text + "\xFF\"]", "1" + std::string(100'000, '0') + "e99",
        "{\"" + long_text + "\":1,\"" + long_text + "\":1}"}) {
    try {
      (void)parse_json(text, "t");
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 500U);
    }
  }
}

TEST(Json, RefusesDuplicateKeys) {
  expect_error(ErrorCode::kFormat, {"t:", "byte 12", "'a'", "twice"},
               [] { (void)parse_json(R"({"a": 1, "a" : 2})", "t"); });
  expect_error(ErrorCode::kFormat, {"'b'"}, [] { (void)parse_json(R"([{"a": {"b": 1, "b": 1}}])", "t"); });
  // escapes are resolved first
  expect_error(ErrorCode::kFormat, {"'a'"}, [] { (void)parse_json(R"({"a": 1, "\u0061": 2})", "t"); });
  EXPECT_NO_THROW((void)parse_json(R"([{"a": {"a": 1}}, {"a": 1}])", "t"));
}

TEST(Json, RefusesWhatNestsDeeperThanAllowed) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_NO_THROW((void)parse_json(nested(64), "t"));
  expect_error(ErrorCode::kFormat, {"byte 65", "deeper", "64"}, [&] { (void)parse_json(nested(65), "t"); });
  EXPECT_NO_THROW((void)parse_json(nested(2), "t", 2));
  EXPECT_NO_THROW((void)parse_json(R"({"a": [], "b": []})", "t", 2));
  expect_error(ErrorCode::kFormat, {"byte 8", "2 levels"}, [] { (void)parse_json(R"({"a": [{}]})", "t", 2); });
  expect_error(ErrorCode::kFormat, {"deeper"}, [] { (void)parse_json(std::string(1'000'000, '['), "t"); });
}

TEST(Json, BoundsTheNumberOfValues) {
  std::string text = "[";
  for (int i = 0; i < 2'000'000; ++i) text += "0,";
  text.back() = ']';
  expect_error(ErrorCode::kLimit, {"t:", "at most 2000000 values"}, [&] { (void)parse_json(text, "t"); });
  text.erase(1, 2);
  EXPECT_EQ(parse_json(text, "t").size(), 1'999'999U);
}

TEST(Json, ReadsFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_json_file(folder.write("a.json", R"({"a": 1})")), Json({{"a", 1}}));
  EXPECT_EQ(read_text_file(folder.write("a.txt", "text"), 4), "text");
  EXPECT_EQ(read_text_file(folder.write("empty", ""), 4), "");
}

TEST(Json, RefusesFilesThatCannotBeRead) {
  const TemporaryFolder folder;
  expect_error(ErrorCode::kNotFound, {"absent.json"}, [&] { (void)read_json_file(folder.path() / "absent.json"); });
  expect_error(ErrorCode::kIo, {"regular file"}, [&] { (void)read_json_file(folder.path()); });
  expect_error(ErrorCode::kFormat, {"bad.json", "byte 2"},
               [&] { (void)read_json_file(folder.write("bad.json", "{")); });
  expect_error(ErrorCode::kLimit, {"long.txt", "at most 4 bytes", "found 5"},
               [&] { (void)read_text_file(folder.write("long.txt", "12345"), 4); });
  expect_error(ErrorCode::kLimit, {"long.json", "at most 4 bytes"},
               [&] { (void)read_json_file(folder.write("long.json", "[1, 2]"), 4); });
  expect_error(ErrorCode::kFormat, {"lfs.json", "expected JSON", "Git LFS pointer"},
               [&] { (void)read_json_file(folder.write("lfs.json", "version https://git-lfs.github.com/spec/v1\n")); });
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(ErrorCode::kIo, {"pipe", "regular file"}, [&] { (void)read_text_file(pipe, 4); });
}

}  // namespace
}  // namespace kda
