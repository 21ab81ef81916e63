// CSV: rows, quotes, columns, and what is wrong with them.
#include "text/data/csv.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/json.h"
#include "base/rng.h"
#include "data_cases.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

using Fields = std::vector<std::string>;

TEST(Csv, SplitsRows) {
  EXPECT_EQ(split_row("a,b", ',', "x"), (Fields{"a", "b"}));
  EXPECT_EQ(split_row("", ',', "x"), (Fields{""}));
  EXPECT_EQ(split_row(",", ',', "x"), (Fields{"", ""}));
  EXPECT_EQ(split_row("\"a, \"\"b\"\"\n\",c;d", ',', "x"), (Fields{"a, \"b\"\n", "c;d"}));
  EXPECT_EQ(split_row("\"\";5\" disk", ';', "x"), (Fields{"", "5\" disk"}));
  expect_says(error_of<FormatError>([] { split_row("a,\"b", ',', "'x.csv', row 3"); }),
              "'x.csv', row 3: a quote that opens field 2 is not closed");
  expect_says(error_of<FormatError>([] { split_row("\"a\"b", ',', "'x.csv', row 3"); }),
              "behind the quote that closes field 1 comes 'b'");
}

TEST(Csv, FindsTheSeparator) {
  EXPECT_EQ(find_separator("a,b;c,d"), ',');
  EXPECT_EQ(find_separator("a;b;c"), ';');
  EXPECT_EQ(find_separator("a\tb"), '\t');
  EXPECT_EQ(find_separator("\"a;b;c\",d"), ',');
  EXPECT_EQ(find_separator("text"), ',');
}

std::string in_csv_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// Rows of many lines and blocks, found again in any order.
TEST(Csv, RowsAreFoundWhateverIsInThem) {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const CounterRng rng(seed, 11);
    const char* end = seed % 2 == 0 ? "\n" : "\r\n";
    std::string file = std::string(seed % 3 == 0 ? "\xef\xbb\xbf" : "") + "id,text" + end;
    std::vector<std::string> texts;
    for (std::uint64_t i = 0; i < 60; ++i) {
      std::string text;
      const std::uint64_t bytes = rng.below(3 * i, 12) == 0 ? 70000 : rng.below(3 * i, 900);
      for (std::uint64_t k = 0; k < bytes; ++k) {
        text += "ab ,\n\r\"\""[rng.below(1000 * i + k, 8)];
      }
      file += fmt::format("{},{}{}", i, in_csv_quotes(text), end);
      texts.push_back(text);
    }
    if (seed == 4) file.resize(file.size() - 1);
    const DataSet data = open_data({folder.write("a.csv", file)});
    ASSERT_EQ(data.items(), 60) << "seed " << seed;
    for (std::int64_t i = 59; i >= 0; --i) {
      ASSERT_EQ(spell(data.read(i).tokens), texts[static_cast<std::size_t>(i)] + "|")
          << "seed " << seed << ", row " << i;
    }
  }
}

TEST(Csv, ColumnsAreThoseOfJsonl) {
  const TemporaryFolder folder;
  const fs::path prompts =
      folder.write("p.csv", "n;completion;prompt\n\n1;yes;is it? \n2;no;or? \n");
  const DataSet data = open_data({prompts});
  ASSERT_EQ(data.items(), 3);
  EXPECT_TRUE(data.read(0).tokens.empty());  // the blank row
  EXPECT_EQ(spell_loss(data.read(1).tokens), ".......yes|");
  EXPECT_EQ(spell(data.read(2).tokens), "or? no|");

  Encoding chat = bytes_encoding();
  chat.chat = [](const Json& messages, bool answer_next) {
    std::string text;
    for (const Json& m : messages) {
      text +=
          m["role"].get<std::string>().substr(0, 1) + ":" + m["content"].get<std::string>() + ";";
    }
    return text + (answer_next ? "a:" : "");
  };
  const fs::path said = folder.write(
      "m.tsv",
      "talk\n\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"hi\"\"}, {\"\"role\"\": "
      "\"\"assistant\"\", \"\"content\"\": \"\"you\"\"}]\"\n");
  const DataSet messages = open_data({said}, chat, {.columns = {.text = {}, .messages = "talk"}});
  EXPECT_EQ(spell_loss(messages.read(0).tokens), ".......you;");
  const fs::path tasks = folder.write("t.csv", "instruction,input,output\nadd,1 and 2,3\nsay,,x\n");
  const DataSet instructions = open_data({tasks}, chat);
  EXPECT_EQ(spell_loss(instructions.read(0).tokens), std::string(17, '.') + "3;");
  EXPECT_EQ(spell(instructions.read(1).tokens), "u:say;a:x;");
  EXPECT_EQ(spell_loss(open_data({tasks}).read(0).tokens), std::string(13, '.') + "3|");
}

TEST(Csv, IsNeverTakenForPlainText) {
  const TemporaryFolder folder;
  const struct {
    std::string text;
    DataOptions options;
    std::vector<std::string_view> words;
  } cases[] = {
      {"id,body\n1,hello\n", {}, {"row 2", "'id', 'body'", "--text-column"}},
      {"id,body\n1,hello\n",
       {.columns = {.text = "bod", .messages = {}}},
       {"row 2", "\"bod\"", "--text-column", "'id', 'body'"}},
      {"text\na\nb,c\n", {}, {"row 3", "2 fields", "1 columns", "quotes"}},
      {"text\na\n\"b\n\n", {}, {"row 3", "quote that opens field 1 is not closed"}},
      {"text\ncaf\xe9\n", {}, {"row 2", "byte 4", "UTF-8"}},
      {"\n  \n", {}, {"blank"}},
      {"text\n", {}, {"none of its 0 rows"}},
  };
  for (const auto& [text, options, words] : cases) {
    const fs::path path = folder.write("bad.csv", text);
    const std::string message = error_of<FormatError>([&] {
      const DataSet data = open_data({path}, bytes_encoding(), options);
      for (std::int64_t i = 0; i < data.items(); ++i) (void)data.read(i);
    });
    expect_says(message, "bad.csv'");
    for (const std::string_view word : words) expect_says(message, word);
  }
  const DataSet named = open_data({folder.write("named.csv", "id,body\n1,hello\n")},
                                  bytes_encoding(), {.columns = {.text = "body", .messages = {}}});
  EXPECT_EQ(spell(named), "hello|");
}

}  // namespace
}  // namespace ebb::text
