// Long conversations: the same text, parts and tokens as by the definition, in time that grows with
// their length.
#include "text/data/chat_text.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/json.h"
#include "data_cases.h"
#include "ebb/error.h"
#include "paths.h"
#include "text/data/examples.h"
#include "text/tokenizer_folder.h"

namespace ebb::text {
namespace {

// Questions and answers of different lengths, one of them asked twice, behind a few system words.
Json long_chat(std::size_t messages, bool system) {
  Json all = Json::array();
  if (system) all.push_back({{"role", "system"}, {"content", "Be brief, be kind."}});
  for (std::size_t i = 0; all.size() < messages; ++i) {
    all.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                   {"content", fmt::format("  {}{} tides\n come ", std::string(i % 7, 'w'), i)}});
  }
  return all;
}

bool is_answer(const Json& message) { return message.at("role") == "assistant"; }

// The definition, which renders and tokenizes everything again for every part. Where the template
// writes what was said before an answer in another way, all begins anew with it.
Item by_definition(const Json& messages, const Encoding& encoding) {
  const Tokenizer& tokenizer = *encoding.tokenizer;
  Item item{.tokens = {}, .next = Item::kUnknown};
  std::string text;
  std::vector<std::int32_t> ids;
  const auto add = [&](const std::string& whole, bool answer) {
    if (answer && !whole.starts_with(text)) throw FormatError("written differently");
    if (!whole.starts_with(text)) {
      item.part_begins.push_back(item.tokens.size());
      text.clear();
      ids.clear();
    }
    const std::vector<std::int32_t> all = tokenizer.encode(whole);
    const bool same = all.size() >= ids.size() && std::equal(ids.begin(), ids.end(), all.begin());
    const std::vector<std::int32_t> rest =
        same ? std::vector(all.begin() + static_cast<std::ptrdiff_t>(ids.size()), all.end())
             : tokenizer.encode_next(std::string_view(whole).substr(text.size()));
    for (const std::int32_t id : rest) item.tokens.push_back(answer ? id : ~id);
    text = whole;
    ids = all;
  };
  Json said = Json::array();
  for (const Json& message : messages) {
    if (is_answer(message)) add(encoding.chat(said, true), false);
    said.push_back(message);
    if (is_answer(message)) add(encoding.chat(said, false), true);
  }
  if (!is_answer(messages.back()) && encoding.chat(said, false).starts_with(text)) {
    add(encoding.chat(said, false), false);
  }
  return item;
}

std::string simple(const Json& said, bool answer_next) {
  std::string text;
  for (const Json& message : said) {
    text += "<" + message["role"].get<std::string>().substr(0, 1) + ":" +
            message["content"].get<std::string>() + ">";
  }
  return text + (answer_next ? "<a:" : "");
}

// Every turn has its number: a turn cannot be rendered out of its place.
std::string numbered(const Json& said, bool answer_next) {
  std::string text;
  for (std::size_t i = 0; i < said.size(); ++i) {
    text += fmt::format("<{}{}:{}>", said[i]["role"].get<std::string>()[0], i,
                        said[i]["content"].get<std::string>());
  }
  return text + (answer_next ? fmt::format("<a{}:", said.size()) : "");
}

Encoding with(ChatRenderer chat, const Tokenizer& tokenizer = kBytes) {
  return {.tokenizer = &tokenizer,
          .vocabulary = tokenizer.vocabulary(),
          .loss_on_all = false,
          .chat = std::move(chat)};
}

TEST(ChatText, LongConversationsAreAsByTheDefinition) {
  for (const std::size_t messages : {32u, 33u, 34u, 60u, 61u, 129u}) {
    const Json said = long_chat(messages, messages % 2 == 0);
    for (const auto& chat : {simple, numbered}) {
      const Item expected = by_definition(said, with(chat));
      EXPECT_EQ(encode_conversation(said, with(chat), "here").tokens, expected.tokens) << messages;
    }
  }
}

// With the tokenizers and templates that people use; where the definition refuses, so does this.
TEST(ChatText, LongConversationsOfTheFamiliesAreAsByTheDefinition) {
  const struct {
    std::string tokenizer, chat, bos, eos;
  } families[] = {{"qwen2", "chatml", "", "<|im_end|>"},
                  {"qwen2", "qwen2", "", "<|im_end|>"},
                  {"qwen2", "qwen2_5", "", "<|im_end|>"},
                  {"qwen2", "qwen3", "", "<|im_end|>"},
                  {"llama3", "llama3", "<|begin_of_text|>", "<|eot_id|>"},
                  {"llama3", "llama3_1", "<|begin_of_text|>", "<|eot_id|>"},
                  {"llama3", "llama3_2", "<|begin_of_text|>", "<|eot_id|>"},
                  {"llama2", "llama2", "<s>", "</s>"},
                  {"llama2", "zephyr", "<s>", "</s>"},
                  {"llama2", "phi3", "<s>", "</s>"},
                  {"mistral", "mistral_v1", "<s>", "</s>"},
                  {"mistral", "mistral_v3", "<s>", "</s>"},
                  {"gemma", "gemma", "<bos>", "<eos>"},
                  {"gemma", "gemma3", "<bos>", "<eos>"}};
  const std::filesystem::path golden = source_folder() / "tests/golden";
  int accepted = 0;
  for (const auto& [name, chat, bos, eos] : families) {
    const TemporaryFolder folder;
    std::filesystem::copy_file(golden / "tokenizers" / (name + ".json"),
                               folder.path() / "tokenizer.json");
    std::filesystem::copy_file(golden / "chat/templates" / (chat + ".jinja"),
                               folder.path() / "chat_template.jinja");
    folder.write("tokenizer_config.json", Json{{"bos_token", bos}, {"eos_token", eos}}.dump());
    const TokenizerFolder model = load_tokenizer(disk, folder.path());
    const Encoding encoding = with(
        [&](const Json& part, bool answer_next) {
          return model.chat->render(part, model.special_tokens, answer_next);
        },
        *model.tokenizer);
    for (const bool system : {false, true}) {
      const Json said = long_chat(53, system);
      const auto tokens_or_none = [](const auto& encode) {
        try {
          return encode();
        } catch (const FormatError&) {
          return std::vector<std::int32_t>{};
        }
      };
      const auto expected = tokens_or_none([&] { return by_definition(said, encoding).tokens; });
      const auto found =
          tokens_or_none([&] { return encode_conversation(said, encoding, "here").tokens; });
      EXPECT_EQ(found, expected) << chat;
      accepted += expected.empty() ? 0 : 1;
    }
  }
  EXPECT_GE(accepted, 18);
}

// Bytes that count what they are asked to tokenize, and can be cut behind every '>'.
class CountingBytes final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    bytes += text.size();
    return kBytes.encode(text);
  }
  std::size_t last_break(std::string_view text) const override {
    const std::size_t at = text.rfind('>');
    return at == std::string_view::npos ? 0 : at + 1;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return kBytes.decode(ids);
  }
  std::int32_t vocabulary() const override { return kBytes.vocabulary(); }
  std::int32_t end_of_text() const override { return kBytes.end_of_text(); }
  std::string name() const override { return "counting bytes"; }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return kBytes.id_of(token);
  }
  mutable std::size_t bytes = 0;
};

TEST(ChatText, WorkGrowsWithTheLengthNotWithItsSquare) {
  const CountingBytes tokenizer;
  std::size_t rendered = 0, messages = 0;
  const Encoding encoding = with(
      [&](const Json& said, bool answer_next) {
        messages += said.size();
        std::string text = simple(said, answer_next);
        rendered += text.size();
        return text;
      },
      tokenizer);
  for (const std::size_t count : {100u, 1000u, 8000u}) {
    rendered = messages = tokenizer.bytes = 0;
    const Item item = encode_conversation(long_chat(count, true), encoding, "here");
    // A turn of two messages: twice behind a first turn; the whole once, and again at the turns 1,
    // 2, 4 and so on, twice, which is at most four times the whole.
    EXPECT_LE(messages, count * 10) << count;
    EXPECT_LE(rendered, item.tokens.size() * 10) << count;
    EXPECT_LE(tokenizer.bytes, item.tokens.size() * 4) << count;
  }
}

// Shows what was thought in the last answer alone.
std::string last_thought(const Json& said, bool answer_next) {
  std::string text;
  for (std::size_t i = 0; i < said.size(); ++i) {
    const bool thinks = is_answer(said[i]) && i + 1 == said.size();
    text += fmt::format("<{}:{}{}>", said[i]["role"].get<std::string>()[0], thinks ? "hm " : "",
                        said[i]["content"].get<std::string>());
  }
  return text + (answer_next ? "<a:" : "");
}

TEST(ChatText, ConversationsThatAreWrittenAnewAreBounded) {
  EXPECT_NO_THROW((void)chat_text(long_chat(40, false), last_thought, "here"));
  const std::string message = error_of<FormatError>(
      [&] { (void)chat_text(long_chat(400, false), last_thought, "'x.jsonl', line 4"); });
  expect_says(message, "'x.jsonl', line 4: the model's chat template writes earlier turns");
  expect_says(message, "split the conversation into several lines");
}

TEST(ChatText, WhatATemplateForcesIsBounded) {
  const Json said = long_chat(200, false);
  EXPECT_NO_THROW((void)chat_text(said, simple, "here", 2'000'000));
  const std::string message = error_of<FormatError>(
      [&] { (void)chat_text(said, numbered, "'x.jsonl', line 4", 2'000'000); });
  expect_says(message, "'x.jsonl', line 4: the conversation would take more than 1.91 MiB");
  expect_says(message, "split it into several lines");
  EXPECT_NO_THROW((void)chat_text(said, numbered, "here"));
}

}  // namespace
}  // namespace ebb::text
