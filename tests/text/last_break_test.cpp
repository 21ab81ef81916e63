// Where a text that grows can be cut for good, with the tokenizers of every family.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "hard_strings.h"
#include "paths.h"
#include "small_tokenizer.h"

namespace ebb::text {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

// Whether what the header says of last_break() holds for this text and what is written behind it.
void expect_cut_for_good(const Tokenizer& tokenizer, const std::string& text,
                         const std::string& more, const std::string& what) {
  const std::size_t cut = tokenizer.last_break(text);
  ASSERT_LE(cut, text.size()) << what;
  if (cut == 0) return;
  const std::string all = text + more;
  std::vector<std::int32_t> found = tokenizer.encode(std::string_view(all).substr(0, cut));
  for (const std::int32_t id : tokenizer.encode_after_break(std::string_view(all).substr(cut))) {
    found.push_back(id);
  }
  ASSERT_EQ(found, tokenizer.encode(all)) << what << ", cut at " << cut << " of " << text.size();
}

TEST(LastBreak, OfTheFamiliesHoldsForHardStrings) {
  const std::filesystem::path folder = golden_folder("tokenizers");
  const Json golden = parse_json(read(folder / "golden.json"), "golden.json");
  const std::vector<std::string> strings = hard_strings(golden);
  for (const std::string& name :
       {"gemma", "gpt2", "llama2", "llama3", "mistral", "pieces", "qwen2", "tekken", "unknown"}) {
    const std::string file = read(folder / (name + std::string(".json")));
    const bpe::BpeTokenizer tokenizer(file, name, "");
    std::vector<std::string> added = {""};
    bool can_be_cut = false;
    bool looks_around = false;
    for (const Json& token : parse_json(file, name).value("added_tokens", Json::array())) {
      if (added.size() == 40) break;
      added.push_back(token["content"]);
      can_be_cut = can_be_cut || !token["normalized"];
      looks_around = looks_around || (!token["normalized"] && token["single_word"]);
    }
    std::uint64_t state = 17;
    std::int64_t cuts = 0;
    for (int i = 0; i < 1500; ++i) {
      const auto pick = [&](const std::vector<std::string>& from) {
        const std::string& text = from[splitmix(state) % from.size()];
        return text.size() < 300 ? text : text.substr(0, 300);
      };
      const std::string token = pick(added);
      // A token may be written in two halves.
      const std::size_t half = token.empty() ? 0 : splitmix(state) % (token.size() + 1);
      const std::string text =
          pick(strings) + pick(added) + pick(strings) + pick(added) + token.substr(0, half);
      const std::string more = token.substr(half) + pick(strings) + pick(added);
      ASSERT_NO_FATAL_FAILURE(
          expect_cut_for_good(tokenizer, text, more, fmt::format("{}, {}", name, i)));
      cuts += tokenizer.last_break(text) > 0 ? 1 : 0;
    }
    EXPECT_EQ(cuts > 100, can_be_cut && !looks_around) << name << ", " << cuts;
  }
}

// Tokens that begin another, that take spaces along, and that want no letter beside them.
TEST(LastBreak, IsNotWhereMoreTextWouldChangeTheToken) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::parse(R"([
    {"id": 5, "content": "<s>", "special": true},
    {"id": 6, "content": "<s>abc", "special": true},
    {"id": 7, "content": "</s>", "special": true, "rstrip": true, "lstrip": true}])");
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->last_break("ab<s>"), 0u);
  EXPECT_EQ(tokenizer->last_break("ab<s>ab"), 0u);
  EXPECT_EQ(tokenizer->last_break("ab<s>abb"), 5u);
  EXPECT_EQ(tokenizer->last_break("ab<s>abca"), 8u);
  EXPECT_EQ(tokenizer->last_break("ab<s>  </s>  aaaa"), 5u);
  EXPECT_EQ(tokenizer->last_break(""), 0u);
  json["added_tokens"].push_back(
      {{"id", 8}, {"content", "cb"}, {"special", true}, {"single_word", true}});
  const auto with_word = load(json);
  EXPECT_EQ(with_word->last_break("ab<s>abb"), 0u);
  const std::vector<std::string> parts = {"a", "b", "c", " ", "<s>", "</s>", "cb", "abc", "<s"};
  std::uint64_t state = 5;
  for (int i = 0; i < 3000; ++i) {
    std::string text, more;
    for (int k = 0; k < 8; ++k) text += parts[splitmix(state) % parts.size()];
    for (int k = 0; k < 4; ++k) more += parts[splitmix(state) % parts.size()];
    ASSERT_NO_FATAL_FAILURE(expect_cut_for_good(*tokenizer, text, more, text + " + " + more));
    ASSERT_NO_FATAL_FAILURE(expect_cut_for_good(*with_word, text, more, text + " + " + more));
  }
}

}  // namespace
}  // namespace ebb::text
