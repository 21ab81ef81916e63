// Messages: whose words carry loss.
#include <gtest/gtest.h>

#include "data_cases.h"
#include "ebb/error.h"
#include "text/data/examples.h"

namespace ebb::text {
namespace {

Json messages(const std::vector<std::pair<std::string, std::string>>& said) {
  Json all = Json::array();
  for (const auto& [role, content] : said) all.push_back({{"role", role}, {"content", content}});
  return all;
}

// <u:hello><a:hi> and, to be answered, <a: behind it.
std::string simple(const Json& said, bool answer_next) {
  std::string text;
  for (const Json& message : said) {
    text += "<" + message["role"].get<std::string>().substr(0, 1) + ":" +
            message["content"].get<std::string>() + ">";
  }
  return text + (answer_next ? "<a:" : "");
}

// Leaves out what was said before the last question.
std::string forgetful(const Json& said, bool answer_next) {
  Json kept = Json::array();
  for (const Json& message : said) {
    if (message["role"] == "user") kept.clear();
    kept.push_back(message);
  }
  return simple(kept, answer_next);
}

Encoding with(ChatRenderer chat) {
  Encoding encoding = bytes_encoding();
  encoding.chat = std::move(chat);
  return encoding;
}

TEST(Conversations, TheAssistantsWordsCarryLossWithTheirEnd) {
  const Json two = messages(
      {{"system", "be"}, {"user", "a?"}, {"assistant", "A"}, {"user", "b?"}, {"assistant", "B"}});
  const Item item = encode_conversation(two, with(simple), "here");
  EXPECT_EQ(spell(item.tokens), simple(two, false));
  EXPECT_EQ(spell(item.tokens), "<s:be><u:a?><a:A><u:b?><a:B>");
  EXPECT_EQ(spell_loss(item.tokens),
            "..............."
            "A>"
            "........."
            "B>");
  EXPECT_EQ(item.next, Item::kUnknown);

  // What is said behind the last answer is there, without loss.
  const Json open = messages({{"user", "a?"}, {"assistant", "A"}, {"user", "b?"}});
  EXPECT_EQ(spell_loss(encode_conversation(open, with(simple), "here").tokens),
            ".........A>......");

  Encoding all = with(simple);
  all.loss_on_all = true;
  EXPECT_EQ(spell_loss(encode_conversation(two, all, "here").tokens), simple(two, false));
}

// What the model sees in training before an answer is, token by token, what a prompt becomes.
TEST(Conversations, BeginWithTheTokensOfThePrompt) {
  const Json said = messages({{"user", "a?"}, {"assistant", "A"}});
  const auto prompt = kBytes.encode(simple(messages({{"user", "a?"}}), true));
  const Item item = encode_conversation(said, with(simple), "here");
  for (std::size_t i = 0; i < prompt.size(); ++i) EXPECT_EQ(id_of(item.tokens[i]), prompt[i]);
  EXPECT_GE(item.tokens[prompt.size()], 0);
}

TEST(Conversations, ReadFromAFile) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "chat.jsonl",
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
      "\"content\": \"b\"}]}\n");
  const DataSet data = open_data({path}, with(simple));
  EXPECT_NE(data.find(Form::conversations), nullptr);
  EXPECT_EQ(spell_loss(data.read(0).tokens), "........b>");
}

TEST(ConversationErrors, NameWhatIsWrong) {
  const auto refused = [](const Json& said, ChatRenderer chat = simple) {
    const std::string message = error_of<FormatError>(
        [&] { (void)encode_conversation(said, with(std::move(chat)), "'x.jsonl', line 4"); });
    expect_says(message, "'x.jsonl', line 4: ");
    return message;
  };
  expect_says(refused(Json("hello")), "\"messages\" is of type string; expected a list");
  expect_says(refused(Json::array()), "\"messages\" is empty");
  std::string message = refused(messages({{"user", "a"}, {"system", "b"}}));
  expect_says(message, "none of the 2 messages has the role \"assistant\"");
  expect_says(message, "{\"text\": ...}");
  expect_says(refused(Json::parse("[3]")), "message 1 should be an object with a string \"role\"");
  expect_says(refused(Json::parse(R"([{"role": "user"}])")), "string \"content\", found none");
  expect_says(refused(Json::parse(R"([{"role": "user", "content": ["a"]}])")), "found array");
  expect_says(refused(Json::parse(R"([{"content": "a"}])")), "\"role\", found none");

  const Json good = messages({{"user", "a"}, {"assistant", "b"}});
  message = refused(good, ChatRenderer());
  expect_says(message, "needs a chat template, and the model's folder has none");
  expect_says(message, "\"prompt\", \"completion\"");
  expect_says(
      refused(good, [](const Json&, bool) -> std::string { throw FormatError("no roles"); }),
      "line 4: no roles");
  expect_says(refused(good, [](const Json&, bool) { return std::string(); }), "empty text");

  EXPECT_NO_THROW((void)encode_conversation(good, with(forgetful), "here"));
  message = refused(
      messages({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}), forgetful);
  expect_says(message, "with message 4 the model's chat template writes what was said before");
  expect_says(message, "a line of its own");
}

}  // namespace
}  // namespace ebb::text
