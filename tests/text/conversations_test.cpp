// Messages: whose words carry loss.
#include <gtest/gtest.h>

#include "base/json.h"
#include "data_cases.h"
#include "ebb/error.h"
#include "paths.h"
#include "text/data/examples.h"
#include "text/tokenizer_folder.h"

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

// With the tokenizers and templates of the families: what was said before an answer has the tokens
// that a prompt of it has, the answers carry loss, and the tokens are those of the whole text.
TEST(Conversations, OfTheFamilies) {
  const struct {
    std::string tokenizer, chat, bos, eos;
  } families[] = {{"qwen2", "chatml", "", "<|im_end|>"},
                  {"qwen2", "qwen2_5", "", "<|im_end|>"},
                  {"llama3", "llama3", "<|begin_of_text|>", "<|eot_id|>"},
                  {"llama3", "llama3_1", "<|begin_of_text|>", "<|eot_id|>"},
                  {"llama2", "llama2", "<s>", "</s>"},
                  {"llama2", "zephyr", "<s>", "</s>"},
                  {"mistral", "mistral_v1", "<s>", "</s>"},
                  {"gemma", "gemma", "<bos>", "<eos>"}};
  const std::filesystem::path golden = source_folder() / "tests/golden";
  const Json said = messages({{"user", "Hello, what is 2+2?"},
                              {"assistant", "It is 4."},
                              {"user", "And  3+3?"},
                              {"assistant", "Six, of course."}});
  for (const auto& [name, chat, bos, eos] : families) {
    const TemporaryFolder folder;
    std::filesystem::copy_file(golden / "tokenizers" / (name + ".json"),
                               folder.path() / "tokenizer.json");
    std::filesystem::copy_file(golden / "chat/templates" / (chat + ".jinja"),
                               folder.path() / "chat_template.jinja");
    folder.write("tokenizer_config.json", Json{{"bos_token", bos}, {"eos_token", eos}}.dump());
    const TokenizerFolder model = load_tokenizer(disk, folder.path());
    const auto render = [&](const Json& part, bool answer_next) {
      return model.chat->render(part, model.special_tokens, answer_next);
    };
    const Encoding encoding{.tokenizer = model.tokenizer.get(),
                            .vocabulary = model.tokenizer->vocabulary(),
                            .loss_on_all = false,
                            .chat = render};
    const Item item = encode_conversation(said, encoding, chat);
    std::vector<std::int32_t> ids;
    std::string learned;
    for (const std::int32_t token : item.tokens) {
      ids.push_back(id_of(token));
      if (token >= 0) learned += model.tokenizer->decode_next({&token, 1});
    }
    expect_says(learned, "It is 4.");
    expect_says(learned, "Six, of course.");
    EXPECT_EQ(learned.find("Hello"), std::string::npos) << chat << ": " << learned;
    EXPECT_EQ(learned.find("3+3"), std::string::npos) << chat << ": " << learned;
    for (const std::size_t before : {1u, 3u}) {
      Json asked = Json::array();
      for (std::size_t i = 0; i < before; ++i) asked.push_back(said[i]);
      const auto prompt = model.tokenizer->encode(render(asked, true));
      EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), ids.begin())) << chat << ", " << before;
      EXPECT_GE(item.tokens[prompt.size()], 0) << chat;
      EXPECT_LT(item.tokens[prompt.size() - 1], 0) << chat;
    }
    EXPECT_EQ(ids, model.tokenizer->encode(render(said, false))) << chat;
  }
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
  expect_says(refused(Json("hello")), "the messages are of type string; expected a list");
  expect_says(refused(Json::array()), "the list of messages is empty");
  std::string message = refused(messages({{"user", "a"}, {"system", "b"}}));
  expect_says(message, "none of the 2 messages has the role \"assistant\"");
  expect_says(message, "{\"text\": ...}");
  expect_says(refused(Json::parse("[3]")), "message 1 should be an object with a string \"role\"");
  expect_says(refused(Json::parse(R"([{"role": "user"}])")), "string \"content\", found none");
  expect_says(refused(Json::parse(R"([{"role": "user", "content": ["a"]}])")), "found array");
  expect_says(refused(Json::parse(R"([{"content": "a"}])")), "\"role\", found none");

  const Json good = messages({{"user", "a"}, {"assistant", "b"}});
  message = error_of<ConfigError>(
      [&] { (void)encode_conversation(good, with({}), "'x.jsonl', line 4"); });
  expect_says(message, "needs a chat template, and the model's folder has none");
  expect_says(message, "\"prompt\", \"completion\"");
  expect_says(
      refused(good, [](const Json&, bool) -> std::string { throw FormatError("no roles"); }),
      "line 4: no roles");
  expect_says(refused(good, [](const Json&, bool) { return std::string(); }), "empty text");

  const auto crossed = [](const Json& said, bool answer_next) {
    return std::to_string(said.size()) + simple(said, answer_next);
  };
  message = refused(good, crossed);
  expect_says(message, "with message 2 the model's chat template writes what was said before");
  expect_says(message, "\"prompt\", \"completion\"");
}

// What the model sees when it is asked for an answer, once for each: the rest drops what was said.
TEST(Conversations, BeginAnewWhereTheTemplateWritesEarlierTurnsInAnotherWay) {
  const Json said = messages(
      {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}, {"user", "e"}});
  const Item item = encode_conversation(said, with(forgetful), "here");
  EXPECT_EQ(spell(item.tokens), "<u:a><a:b><u:c><a:d>");
  EXPECT_EQ(spell_loss(item.tokens), "........b>........d>");
  EXPECT_EQ(item.part_begins, (std::vector<std::size_t>{10}));
  // Where all is learned it is one text.
  Encoding all = with(forgetful);
  all.loss_on_all = true;
  const Item learned = encode_conversation(said, all, "here");
  EXPECT_EQ(spell_loss(learned.tokens), "<u:e>");
  EXPECT_TRUE(learned.part_begins.empty());
}

// As templates of models that always think: they ask with "<think>", and leave out what was
// thought.
std::string thinking(const Json& said, bool answer_next) {
  std::string text;
  for (const Json& message : said) {
    std::string content = message["content"].get<std::string>();
    const std::size_t end = content.find("</think>");
    if (message["role"] == "assistant" && end != std::string::npos) content.erase(0, end + 8);
    content.erase(0, content.find_first_not_of('\n'));
    text += "<" + message["role"].get<std::string>().substr(0, 1) + ":" + content + ">";
  }
  return text + (answer_next ? "<a:<think>\n" : "");
}

TEST(Conversations, WhatWasThoughtIsLearnedThoughTheTemplateLeavesItOut) {
  const Json one = messages({{"user", "2+2?"}, {"assistant", "<think>\nadd\n</think>\n\n4"}});
  EXPECT_EQ(spell(encode_conversation(one, with(thinking), "here").tokens),
            "<u:2+2?><a:<think>\nadd\n</think>\n\n4>");
  EXPECT_EQ(spell_loss(encode_conversation(one, with(thinking), "here").tokens),
            std::string(19, '.') + "add\n</think>\n\n4>");
  const Json two = messages({{"user", "2+2?"},
                             {"assistant", "<think>\nadd\n</think>\n\n4"},
                             {"user", "ok?"},
                             {"assistant", "<think>\n\n</think>\n\nyes"}});
  const Item item = encode_conversation(two, with(thinking), "here");
  EXPECT_EQ(spell(item.tokens).substr(item.part_begins.at(0)),
            "<u:2+2?><a:4><u:ok?><a:<think>\n\n</think>\n\nyes>");

  // An answer without a thought is none that the model would give.
  const Json thoughtless = messages({{"user", "2+2?"}, {"assistant", "4"}});
  const std::string message = error_of<FormatError>(
      [&] { (void)encode_conversation(thoughtless, with(thinking), "'x.jsonl', line 4"); });
  expect_says(message, "'x.jsonl', line 4: ");
  expect_says(message,
              R"(asks for an answer with "<think>\n", which message 2 does not begin with)");
  expect_says(message, R"(nothing was thought: "<think>\n\n</think>\n\n")");
}

}  // namespace
}  // namespace ebb::text
