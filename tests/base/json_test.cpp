// JSON from outside: what is refused, and that time grows with the text and no faster.
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/sorted_json.h"
#include "ebb/error.h"

namespace ebb {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(std::string_view text) {
  try {
    parse_json(text, "some.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":[1,-2,18446744073709551615,0.5,"\u00e9",true,null,[],{}],"a":{"b":{}},"m":-0.0})";
  EXPECT_EQ(parse_json(text, "some.json"), Json::parse(text));
  EXPECT_EQ(parse_json(text, "some.json").dump(), Json::parse(text).dump());
  EXPECT_EQ(parse_json(" 7 ", "some.json"), Json(7));
}

TEST(ParseJson, SaysWhereTheTextBreaks) {
  for (const std::string text : {"", "{", "[1,]", "{\"a\":1}x", "\"\xff\"", "1e999", "nan"}) {
    EXPECT_THAT(error_of(text), AllOf(HasSubstr("some.json"), HasSubstr("not JSON"))) << text;
  }
  EXPECT_THAT(error_of("[1,]"), HasSubstr("byte 4"));
}

TEST(ParseJson, HidesNothingBehindAZeroByte) {
  EXPECT_THAT(error_of(std::string_view("{}\0{", 4)), HasSubstr("byte 2 is zero"));
}

TEST(ParseJson, RefusesRepeatedKeys) {
  EXPECT_THAT(error_of(R"([{"a":1,"b":2,"a":3}])"), HasSubstr("'a' twice"));
  EXPECT_EQ(error_of(R"([{"a":1,"b":{"a":1}},{"a":3}])"), "no error");
}

TEST(ParseJson, BoundsTheDepth) {
  EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "no error");
  EXPECT_THAT(error_of(std::string(65, '[') + std::string(65, ']')), HasSubstr("deeper than 64"));
  EXPECT_THAT(error_of(std::string(1000000, '[')), HasSubstr("deeper than 64"));
}

// In time that grows with the square of the text these take hours, and the test its time limit.
TEST(ParseJson, TakesLongListsAndManyKeys) {
  std::string list = "[{}";
  std::string object = R"({"":0)";
  for (int i = 0; i < 1'000'000; ++i) {
    list += ",{}";
    fmt::format_to(std::back_inserter(object), R"(,"{}":0)", i);
  }
  EXPECT_EQ(parse_json(list + "]", "some.json").size(), 1'000'001u);
  EXPECT_EQ(parse_json(object + "}", "some.json").size(), 1'000'001u);
  EXPECT_EQ(parse_sorted_json(list + "]", "some.json").size(), 1'000'001u);
  EXPECT_EQ(parse_sorted_json(object + "}", "some.json").size(), 1'000'001u);
}

TEST(ParseSortedJson, KeepsValuesAndRefusesTheSame) {
  const std::string text = R"({"z":[1,-2,0.5,"\u00e9",true,null,[],{}],"a":{"b":{}}})";
  EXPECT_EQ(parse_sorted_json(text, "some.json"), SortedJson::parse(text));
  for (const std::string_view bad : {std::string_view(R"([{"a":1,"b":2,"a":3}])"),
                                     std::string_view("{}\0{", 4), std::string_view("[1,]")}) {
    EXPECT_THROW(parse_sorted_json(bad, "some.json"), FormatError) << bad;
  }
}

}  // namespace
}  // namespace ebb
