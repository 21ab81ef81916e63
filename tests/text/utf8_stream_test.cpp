#include "text/utf8_stream.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ebb::text {
namespace {

const std::string kBad = "\xef\xbf\xbd";

// Fed byte by byte, and the end.
std::string slowly(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  for (const char byte : bytes) out += stream.feed(std::string_view(&byte, 1));
  return out + stream.finish();
}

std::string at_once(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.feed(bytes);
  return out + stream.finish();
}

std::string encoded(char32_t c) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | (c >> 6)), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | (c >> 12)), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xf0 | (c >> 18)), tail(c >> 12), tail(c >> 6), tail(c)};
}

TEST(Utf8Stream, HoldsACharacterBackUntilItIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("a\xf0"), "a");
  EXPECT_EQ(stream.feed("\x9f"), "");
  EXPECT_EQ(stream.feed("\x8c"), "");
  EXPECT_EQ(stream.feed("\x8a z"), "\xf0\x9f\x8c\x8a z");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, PassesEveryCharacterWholeAndInPieces) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    const std::string bytes = encoded(c);
    ASSERT_EQ(at_once(bytes), bytes) << "U+" << std::hex << static_cast<std::uint32_t>(c);
    ASSERT_EQ(slowly(bytes), bytes) << "U+" << std::hex << static_cast<std::uint32_t>(c);
  }
}

TEST(Utf8Stream, ReplacesAtTheFirstByteThatMakesItCertain) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\x80"), kBad);     // nothing begins so
  EXPECT_EQ(stream.feed("\xe2\x82"), "");   // could still become a character
  EXPECT_EQ(stream.feed("A"), kBad + "A");  // now it cannot
  EXPECT_EQ(stream.feed("\xed"), "");
  EXPECT_EQ(stream.feed("\xa0"), kBad + kBad);  // a surrogate's second byte: neither is a character
  EXPECT_EQ(stream.feed("\xe2\xc3"), kBad);     // the byte that breaks one begins the next
  EXPECT_EQ(stream.feed("\xa9"), "\xc3\xa9");
}

TEST(Utf8Stream, ReplacesInvalidBytesByMaximalRuns) {
  const struct {
    std::string bytes, expected;
  } cases[] = {
      {"\xc0\xaf", kBad + kBad},                        // overlong
      {"\xe0\x80\xaf", kBad + kBad + kBad},             // overlong
      {"\xf0\x8f\xbf\xbf", kBad + kBad + kBad + kBad},  // overlong
      {"\xf4\x90\x80\x80", kBad + kBad + kBad + kBad},  // beyond U+10FFFF
      {"\xff\xfe", kBad + kBad},
      {"\xf1\x80\x80\xe1\x80\xc2"
       "b",
       kBad + kBad + kBad + "b"},
      {"end\xf0\x9f\x8c", "end" + kBad},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(at_once(bytes), expected);
    EXPECT_EQ(slowly(bytes), expected);
  }
}

TEST(Utf8Stream, IsAsNewAfterFinish) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xe2\x82"), "");
  EXPECT_EQ(stream.finish(), kBad);
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.feed("\xac"
                        "ok"),
            kBad + "ok");
}

}  // namespace
}  // namespace ebb::text
