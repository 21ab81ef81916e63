#include "text/tokenizer_folder.h"

#include <gtest/gtest.h>

#include "data_cases.h"
#include "ebb/error.h"
#include "small_tokenizer.h"
#include "temporary_folder.h"

namespace ebb::text {
namespace {

TEST(TokenizerFolder, NeedsOnlyTheTokenizer) {
  const TemporaryFolder folder;
  EXPECT_FALSE(has_tokenizer(disk, folder.path()));
  folder.write("tokenizer.json", small_tokenizer().dump());
  EXPECT_TRUE(has_tokenizer(disk, folder.path()));
  const TokenizerFolder loaded = load_tokenizer(disk, folder.path());
  EXPECT_EQ(loaded.tokenizer->end_of_text(), 6) << "</s> is a name that models use";
  EXPECT_FALSE(loaded.chat);
  EXPECT_TRUE(loaded.special_tokens.empty());
  EXPECT_EQ(loaded.files, std::vector<std::string>{"tokenizer.json"});
}

TEST(TokenizerFolder, TakesSpecialTokensFromBothFiles) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"eos_token": "c", "bos_token": {"content": "<s>"},
      "unk_token": null, "add_bos_token": true})");
  folder.write("special_tokens_map.json", R"({"eos_token": "a", "pad_token": "b"})");
  const TokenizerFolder loaded = load_tokenizer(disk, folder.path());
  EXPECT_EQ(loaded.tokenizer->end_of_text(), 2);
  EXPECT_EQ(loaded.special_tokens,
            (std::map<std::string, std::string>{
                {"bos_token", "<s>"}, {"eos_token", "c"}, {"pad_token", "b"}}));
  EXPECT_EQ(loaded.files, (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json",
                                                    "special_tokens_map.json"}));
}

TEST(TokenizerFolder, FindsTheChatTemplate) {
  const Json message = Json::array({{{"role", "user"}, {"content", "hi"}}});
  const auto rendered = [&](const TokenizerFolder& loaded) {
    return loaded.chat ? loaded.chat->render(message, {}, false) : "none";
  };
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(rendered(load_tokenizer(disk, folder.path())), "one");
  folder.write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "two"}, {"name": "default", "template": "three"}]})");
  EXPECT_EQ(rendered(load_tokenizer(disk, folder.path())), "three");
  folder.write("chat_template.jinja", "four");
  EXPECT_EQ(rendered(load_tokenizer(disk, folder.path())), "four");
}

TEST(TokenizerFolder, NamesTheFileThatIsWrong) {
  const TemporaryFolder folder;
  const auto failure = [&] { load_tokenizer(disk, folder.path()); };
  expect_says(error_of<ConfigError>(failure), "no tokenizer.json");
  folder.write("tokenizer.json", "{}");
  expect_says(error_of<FormatError>(failure), (folder.path() / "tokenizer.json").string());
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", "[]");
  expect_says(error_of<FormatError>(failure), "tokenizer_config.json");
  folder.write("tokenizer_config.json", R"({"eos_token": "<|gone|>"})");
  expect_says(error_of<FormatError>(failure), "'<|gone|>'");
}

}  // namespace
}  // namespace ebb::text
