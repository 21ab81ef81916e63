#include "text/chat/chat_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <thread>

#include "base/json.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

const Json kHello = {{{"role", "user"}, {"content", "Hello"}}};

std::string render(const std::string& source, const Json& messages = kHello) {
  return ChatTemplate(source, "t.jinja").render(messages, {{"bos_token", "<s>"}}, true);
}

template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_rendering(const std::string& source) {
  return error_of([&] { render(source); });
}

TEST(ChatTemplate, GivesTheTemplateWhatTransformersGives) {
  EXPECT_EQ(render("{{ bos_token }}{{ messages[0].content }}{{ add_generation_prompt }}"),
            "<s>HelloTrue");
  EXPECT_EQ(render("{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}"),
            "TrueTrueFalse");
  EXPECT_EQ(ChatTemplate("{{ add_generation_prompt }}", "t").render(kHello, {}, false), "False");
}

TEST(ChatTemplate, KeepsTheOrderOfKeys) {
  const Json messages = parse_json(R"([{"z": 1, "role": "user", "a": {"y": 1, "b": 2}}])", "test");
  EXPECT_EQ(render("{{ messages | tojson }}", messages),
            R"([{"z": 1, "role": "user", "a": {"y": 1, "b": 2}}])");
}

TEST(ChatTemplate, TellsReasoningUnderTheNamesThatTemplatesRead) {
  const Json messages = parse_json(R"([{"role": "a", "reasoning": "r"}])", "test");
  EXPECT_EQ(render("{{ messages | tojson }}", messages),
            R"([{"thinking": "r", "role": "a", "reasoning": "r", "reasoning_content": "r"}])");
  const Json both = parse_json(R"([{"reasoning_content": null, "thinking": "t", "x": 1}])", "test");
  EXPECT_EQ(render("{{ messages | tojson }}", both),
            R"([{"thinking": "t", "reasoning_content": "t", "x": 1}])");
}

TEST(ChatTemplate, KnowsTheDate) {
  std::string before, after, found;
  const auto today = [] {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char text[64];
    return std::string(text, std::strftime(text, sizeof text, "%d %b %Y", &local));
  };
  do {  // again if it was midnight in between
    before = today();
    found = render("{{ strftime_now('%d %b %Y') }}");
    after = today();
  } while (before != after);
  EXPECT_EQ(found, before);
}

TEST(ChatTemplate, RendersOnManyThreadsAtOnce) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% macro m(x) %}{{ x }}{% endmacro %}"
      "{% for i in range(200) %}{% set ns.n = ns.n + i %}{{ m(i) }}{% endfor %}{{ ns.n }}",
      "t");
  const std::string expected = chat.render(kHello, {}, true);
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::string& text : found)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) text = chat.render(kHello, {}, true);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : found) EXPECT_EQ(text, expected);
}

TEST(ChatTemplateErrors, NameTheFileTheLineAndWhatTheTemplateSays) {
  EXPECT_EQ(error_of_rendering("a\nb\n{{ raise_exception('No system role!') }}"),
            "t.jinja: line 3: the template refuses this conversation: No system role!");
  EXPECT_EQ(error_of_rendering("\n{{ missing.x }}"), "t.jinja: line 2: 'missing' is undefined");
  EXPECT_EQ(error_of_rendering("{{ messages[0].no.x }}"),
            "t.jinja: line 1: 'dict object' has no attribute 'no'");
  EXPECT_EQ(error_of_rendering("{{ messages[7].x }}"),
            "t.jinja: line 1: list object has no element 7");
  EXPECT_EQ(error_of_rendering("{% if true %}\n{{ 1 | upper(2) }}{% endif %}"),
            "t.jinja: line 2: 'a filter that changes case' takes at most 0 arguments, not 1");
}

TEST(ChatTemplateErrors, ConversationsThatAreNone) {
  const ChatTemplate chat("{{ messages }}", "t.jinja");
  const auto refusal = [&](const Json& messages) {
    return error_of([&] { chat.render(messages, {}, true); });
  };
  EXPECT_EQ(refusal(Json::object()), "t.jinja: 'messages' must be a JSON array");
  EXPECT_EQ(refusal(Json::array({kHello[0], "hi"})),
            "t.jinja: message 2 must be a JSON object with \"role\" and \"content\"");
  EXPECT_EQ(refusal({{{"content", "\xff"}}}),
            "t.jinja: message 1: a text of the conversation is not UTF-8");
  EXPECT_EQ(refusal({{{"content", std::uint64_t{1} << 63}}}),
            "t.jinja: message 1: an integer does not fit 64 bits");
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json::array({deep});
  EXPECT_EQ(refusal({{{"content", deep}}}),
            "t.jinja: message 1: JSON nested deeper than 100 levels");
}

TEST(ChatTemplateErrors, TokensThatAreNotUtf8) {
  const ChatTemplate chat("{{ bos_token }}", "t.jinja");
  EXPECT_EQ(error_of([&] {
              chat.render(kHello, {{"bos_token", "\xff"}}, true);
            }),
            "t.jinja: the token 'bos_token' is not UTF-8");
}

}  // namespace
}  // namespace ebb::text
