// Hostile text as HTML.
#include "report/html.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace ebb::report {
namespace {

TEST(Html, EscapesWhatItWouldTakeForItsOwn) {
  EXPECT_EQ(escaped("<script>alert(\"1\" & '2')</script>"),
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;");
  EXPECT_EQ(escaped("a\tb\nc"), "a\tb\nc");
}

TEST(Html, ReplacesWhatIsNoText) {
  EXPECT_EQ(escaped(std::string_view("a\0b\x1b[31m\x7f", 9)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD[31m\xEF\xBF\xBD");
  // A stray byte, an overlong '<', half of a character.
  EXPECT_EQ(escaped("\xff\xc0\xbc\xe2\x82"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xC3\xA9"), "\xC3\xA9");
}

TEST(Html, JsonCannotEndItsElement) {
  const Json json = {{"</script><script>", "<!-- & \xE2\x80\xA8 \xC3\xA9 \xff"}};
  const std::string text = json_for_script(json);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos) << text;
  for (const char c : text) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << text;
  EXPECT_EQ(parse_json(text, "a page").begin().key(), "</script><script>");
}

TEST(Html, ATableMarksRowsThatDiffer) {
  const std::string html = to_html({.caption = "a <b>",
                                    .columns = {"", "one", "two"},
                                    .rows = {{"same", "1", "1"}, {"other", "1", "2"}},
                                    .marks_differences = true});
  EXPECT_NE(html.find("a &lt;b&gt;"), std::string::npos);
  EXPECT_NE(html.find("<tr><th scope=\"row\">same"), std::string::npos) << html;
  EXPECT_NE(html.find("<tr class=\"differs\"><th scope=\"row\">other"), std::string::npos) << html;
}

}  // namespace
}  // namespace ebb::report
