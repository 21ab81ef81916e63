// JSONL files: finding lines, what is on them, what is wrong with them.
#include <gtest/gtest.h>

#include <fstream>

#include <fmt/format.h>

#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data_cases.h"
#include "ebb/error.h"
#include "text/data/examples.h"
#include "text/data/line_index.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

TEST(LineIndex, FindsEveryLine) {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const CounterRng rng(seed, 2);
    // Lines from one byte to several blocks, with and without a line feed at the end.
    std::vector<std::string> lines;
    std::string text(seed % 3, '#');
    const Bytes begin = static_cast<Bytes>(text.size());
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::uint64_t longest = rng.below(2 * i, 20) == 0 ? 100000 : 2000;
      lines.push_back(
          std::string(rng.below(2 * i + 1, longest) + 1, static_cast<char>('a' + i % 26)));
      text += lines.back();
      if (i + 1 < 300 || seed % 2 == 0) text += '\n';
    }
    const SourceFile file(disk, folder.write("lines", text));
    Bytes seen = 0;
    Digest digest, expected;
    const LineIndex index(
        file, begin, LineEnds(), BadLines::refuse, [&](Bytes done) { seen = done; }, digest);
    expected.add(std::as_bytes(std::span(text)).subspan(static_cast<std::size_t>(begin)));
    EXPECT_EQ(digest.hex(), expected.hex());
    EXPECT_EQ(seen, static_cast<Bytes>(text.size()) - begin);
    ASSERT_EQ(index.lines(), 300) << "seed " << seed;
    std::size_t longest = 0;
    for (std::int64_t i = 299; i >= 0; --i) {
      const std::string& expected = lines[static_cast<std::size_t>(i)];
      ASSERT_EQ(index.read(file, i), expected) << "seed " << seed << ", line " << i;
      longest = std::max(longest, expected.size());
    }
    EXPECT_EQ(index.longest(), static_cast<Bytes>(longest));
    EXPECT_LE(index.memory_bytes(), static_cast<Bytes>(text.size() / 4096 + 8));
  }
}

TEST(LineIndex, RefusesALineThatIsTooLong) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("long.jsonl", "{\"text\": \"a\"}\n");
  fs::resize_file(path, 65 * kMiB + 14);  // a hole: no disk
  const std::string message = error_of<FormatError>([&] { open_data({path}); });
  expect_says(message, path.string() + "', line 2");
  expect_says(message, "longer than 64.0 MiB");
  expect_says(message, "split it");
}

TEST(Jsonl, Texts) {
  const TemporaryFolder folder;
  const fs::path path = folder.write(
      "a.jsonl", "\xef\xbb\xbf{\"id\": 1, \"text\": \"caf\xc3\xa9\"}\r\n{\"text\": \"\"}");
  const DataSet data = open_data({path});
  ASSERT_EQ(data.items(), 2);
  EXPECT_EQ(spell_loss(data.read(0).tokens), "caf\xc3\xa9|");
  EXPECT_EQ(spell_loss(data.read(1).tokens), "|");
  EXPECT_EQ(data.read(0).next, Item::kNextItem);
  EXPECT_NE(data.find(Form::texts), nullptr);
  EXPECT_EQ(data.find(Form::completions), nullptr);
}

TEST(Jsonl, CompletionsCarryLossAndPromptsDoNot) {
  const TemporaryFolder folder;
  const fs::path path = folder.write(
      "a.jsonl", "{\"completion\": \"Yes\", \"text\": \"no\", \"prompt\": \"Is it? \"}\n");
  Encoding encoding = bytes_encoding();
  EXPECT_EQ(spell_loss(open_data({path}, encoding).read(0).tokens), ".......Yes|");
  EXPECT_EQ(spell(open_data({path}, encoding).read(0).tokens), "Is it? Yes|");
  encoding.loss_on_all = true;
  EXPECT_EQ(spell_loss(open_data({path}, encoding).read(0).tokens), "Is it? Yes|");
  encoding = bytes_encoding();
  encoding.tokenizer = &kBytesAfterBegin;
  EXPECT_EQ(spell(open_data({path}, encoding).read(0).tokens), "^Is it? Yes|");
  EXPECT_EQ(spell_loss(open_data({path}, encoding).read(0).tokens), "........Yes|");
}

TEST(Jsonl, BlankLinesAreNothing) {
  const TemporaryFolder folder;
  const DataSet data =
      open_data({folder.write("a.jsonl", "\n \t\r\n{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n\n")});
  EXPECT_EQ(spell(data), "a|b|");
  ASSERT_EQ(data.items(), 6);
  EXPECT_TRUE(data.read(0).tokens.empty());
  EXPECT_TRUE(data.read(3).problem.empty());
  // Lines keep their numbers.
  EXPECT_EQ(data.file_of(4).place(4), "'" + (folder.path() / "a.jsonl").string() + "', line 5");
  const std::string message =
      error_of<FormatError>([&] { open_data({folder.write("blank.jsonl", "\n  \n")}); });
  expect_says(message, "none of its 2 lines has anything on it");
}

// "u:...;a:...;", with what the assistant says to carry loss.
std::string short_chat(const Json& messages, bool answer_next) {
  std::string text;
  for (const Json& m : messages) {
    text += m["role"].get<std::string>().substr(0, 1) + ":" + m["content"].get<std::string>() + ";";
  }
  return text + (answer_next ? "a:" : "");
}

TEST(Jsonl, ColumnsThatPeopleHave) {
  const TemporaryFolder folder;
  Encoding chat = bytes_encoding();
  chat.chat = short_chat;
  const auto item = [&](const std::string& line, const Encoding& encoding, Columns columns = {}) {
    return open_data({folder.write("a.jsonl", line + "\n")}, encoding, {.columns = columns})
        .read(0);
  };
  const auto learned = [&](const std::string& line, const Encoding& encoding) {
    return spell_loss(item(line, encoding).tokens);
  };
  // ShareGPT
  const std::string shared =
      R"({"id": 1, "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]})";
  EXPECT_EQ(spell(item(shared, chat).tokens), "u:hi;a:yo;");
  EXPECT_EQ(learned(shared, chat), ".......yo;");
  EXPECT_EQ(spell(item(R"({"system": "be", "conversations": [{"from": "user", "value": "hi"}, )"
                       R"({"from": "assistant", "value": "yo", "weight": 1}]})",
                       chat)
                      .tokens),
            "s:be;u:hi;a:yo;");
  // Alpaca, for models with a chat template and without.
  const std::string task = R"({"instruction": "add", "input": "1 2", "output": "3"})";
  EXPECT_EQ(spell(item(task, chat).tokens), "u:add\n\n1 2;a:3;");
  EXPECT_EQ(spell(item(task, bytes_encoding()).tokens), "add\n\n1 2\n3|");
  EXPECT_EQ(learned(task, bytes_encoding()), ".........3|");
  EXPECT_EQ(spell(item(R"({"instruction": "say", "output": "x"})", chat).tokens), "u:say;a:x;");
  EXPECT_EQ(spell(item(R"({"instruction": "say", "input": null, "output": "x"})", chat).tokens),
            "u:say;a:x;");
  // Names of the user's own
  EXPECT_EQ(
      spell(
          item(R"({"text": "no", "body": "yes"})", chat, {.text = "body", .messages = {}}).tokens),
      "yes|");
  EXPECT_EQ(
      spell(
          item(
              R"({"chat": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
              chat, {.text = {}, .messages = "chat"})
              .tokens),
      "u:q;a:a;");
  const std::string message = error_of<FormatError>(
      [&] { item(R"({"text": "no"})", chat, {.text = {}, .messages = "chat"}); });
  expect_says(message, "line 1: there is no \"chat\", which --messages-column names");
  const std::string unknown = error_of<FormatError>(
      [&] { item(R"({"conversations": [{"from": "gpt", "value": 3}]})", chat); });
  expect_says(unknown, "message 1 should be an object with a string \"content\", found number");
}

// One that merges: "ab" is one token, and every text begins with a space.
class Merging final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids{' '};
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool pair = text.substr(i).starts_with("ab");
      ids.push_back(pair ? 300 : text[i]);
      i += pair ? 1 : 0;
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t>) const override { return {}; }
  std::int32_t vocabulary() const override { return 301; }
  std::int32_t end_of_text() const override { return 256; }
  std::string name() const override { return "merging"; }
  std::optional<std::int32_t> id_of(std::string_view) const override { return std::nullopt; }
};

TEST(Jsonl, ACompletionNeverChangesThePromptsTokens) {
  const Merging merging;
  const auto tokens = [&](const char* line) {
    return encode_example(Json::parse(line), {.kind = Layout::Kind::completion},
                          {.tokenizer = &merging, .vocabulary = 301, .chat = {}}, "here")
        .tokens;
  };
  using Ids = std::vector<std::int32_t>;
  // No second space, as in the whole text.
  EXPECT_EQ(tokens(R"({"prompt": "x", "completion": "ab"})"), (Ids{~' ', ~'x', 300, 256}));
  // The whole text would have "ab" as one token: the completion is tokenized alone.
  EXPECT_EQ(tokens(R"({"prompt": "xa", "completion": "b"})"),
            (Ids{~' ', ~'x', ~'a', ' ', 'b', 256}));
}

// The error of the first line that cannot be read, wherever that is noticed.
std::string refusal(const TemporaryFolder& folder, const std::string& text) {
  const fs::path path = folder.write("bad.jsonl", text);
  const std::string message = error_of<FormatError>([&] {
    const DataSet data = open_data({path});
    for (std::int64_t i = 0; i < data.items(); ++i) (void)data.read(i);
  });
  expect_says(message, "'" + path.string() + "', line ");
  return message;
}

TEST(JsonlErrors, NameTheFileTheLineAndWhatToDo) {
  const TemporaryFolder folder;
  const std::string good = "{\"text\": \"a\"}\n";
  const struct {
    std::string text;
    std::vector<std::string_view> words;
  } cases[] = {
      {good + "{\"text\": \"half \\ud83d of it\"}\n",
       {"line 2", "half of a character", "surrogate"}},
      {good + "{\"text\": \"\\udc00\"}\n", {"line 2", "half of a character", "surrogate"}},
      {good + "{\"text\": \n", {"line 2", "not JSON"}},
      {good + "{\"text\": \"a\"} x\n", {"line 2", "not JSON"}},
      {good + "[1]\n", {"line 2", "object", "found array"}},
      {"\"text\"\n", {"line 1", "object", "found string", "\"text\""}},
      {"{\"txet\": \"a\", \"id\": 3}\n",
       {"line 1", "'txet', 'id'", "expected \"text\"", "\"messages\""}},
      {"{}\n", {"line 1", "none", "expected \"text\""}},
      {"{\"prompt\": \"a\"}\n", {"line 1", "'prompt'", "\"completion\""}},
      {good + "{\"prompt\": \"a\", \"completion\": \"b\"}\n",
       {"line 2", "\"text\" is missing", "'prompt', 'completion'", "first line", "file of its"}},
      {"{\"text\": 7}\n", {"line 1", "\"text\" is of type number", "expected a string"}},
      {"{\"prompt\": \"a\", \"completion\": null}\n", {"line 1", "completion", "type null"}},
      {good + "{\"text\": \"caf\xe9\"}\n", {"line 2", "byte 14", "0xe9", "UTF-8", "iconv"}},
      {good + std::string(100, '['), {"line 2"}},
  };
  for (const auto& [text, words] : cases) {
    const std::string message = refusal(folder, text);
    for (const std::string_view word : words) expect_says(message, word);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  const struct {
    std::string text;
    std::optional<std::size_t> expected;
  } cases[] = {
      {"", std::nullopt},
      {"plain ascii text", std::nullopt},
      {"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf",
       std::nullopt},
      {"eight chars\xff", 11},
      {"12345678\x80", 8},
      {"a\xc3", 1},
      {"a\xe2\x82", 1},
      {"a\xf0\x9f\x98", 1},
      {"\xc0\xaf", 0},
      {"\xe0\x9f\xbf", 0},
      {"\xed\xa0\x80", 0},  // a surrogate
      {"\xf4\x90\x80\x80", 0},
      {"\xf5\x80\x80\x80", 0},
      {"ok \xc3\xa9 \xc3(", 6},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(utf8::find_invalid(text), expected) << text;
}

}  // namespace
}  // namespace ebb::text
