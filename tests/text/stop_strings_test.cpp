// Texts that end before a string, in pieces of every size.
#include "text/stop_strings.h"

#include <gtest/gtest.h>

namespace ebb::text {
namespace {

struct Case {
  std::vector<std::string> stops;
  std::string text;
  std::string shown;  // the part before the stop string
  bool ended;
};

TEST(StopStrings, PiecesChangeNothing) {
  const std::vector<Case> cases = {
      {{"END"}, "the END of it", "the ", true},
      {{"END"}, "the EN", "the EN", false},
      {{"END"}, "EEND", "E", true},
      {{"aab"}, "aaaab", "aa", true},
      {{"abac"}, "ababac", "ab", true},
      {{"abcd", "bc"}, "xabcd", "xa", true},
      {{"abc", "bc"}, "xabc", "x", true},
      {{"abcd", "x"}, "abcx", "abc", true},
      {{"\n\n", "User:"}, "one\nUser\n\nUser:", "one\nUser", true},
      {{"\xc3\xa9!"}, "caf\xc3\xa9? caf\xc3\xa9!", "caf\xc3\xa9? caf", true},
      {{"END"}, "END", "", true},
      {{}, "anything", "anything", false}};
  for (const Case& c : cases) {
    for (std::size_t size = 1; size <= c.text.size(); ++size) {
      StopStrings stops(c.stops);
      std::string shown;
      for (std::size_t at = 0; at < c.text.size(); at += size) {
        shown += stops.feed(std::string_view(c.text).substr(at, size));
        EXPECT_EQ(c.shown.substr(0, shown.size()), shown) << c.text << " by " << size;
      }
      EXPECT_EQ(stops.ended(), c.ended) << c.text << " by " << size;
      EXPECT_EQ(shown + stops.finish(), c.shown) << c.text << " by " << size;
      EXPECT_EQ(stops.feed("more"), stops.ended() ? "" : "more");
    }
  }
}

TEST(StopStrings, HoldsBackNoMoreThanItMust) {
  StopStrings stops({"\n\nUser"});
  EXPECT_EQ(stops.feed("one\n"), "one");
  EXPECT_EQ(stops.feed("two"), "\ntwo");
  EXPECT_EQ(stops.feed("\n\nUs"), "");
  EXPECT_EQ(stops.feed("x"), "\n\nUsx");
}

}  // namespace
}  // namespace ebb::text
