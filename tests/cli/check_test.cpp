// ebb check: every bad line is named, what is good is counted, and an example is shown as it is
// learned.
#include "cli/small_commands.h"
#include "io/packed.h"
#include "paths.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CheckTest : public SmallCommands {
 protected:
  // A tokenizer's folder with a chat template of the golden files.
  std::string chat_folder(const std::string& chat) const {
    const std::filesystem::path golden = source_folder() / "tests/golden";
    const std::filesystem::path made = at("tokenizer-" + chat);
    std::filesystem::create_directories(made);
    std::filesystem::copy_file(golden / "tokenizers/qwen2.json", made / "tokenizer.json",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::copy_file(golden / "chat/templates" / (chat + ".jinja"),
                               made / "chat_template.jinja",
                               std::filesystem::copy_options::overwrite_existing);
    write_file(made / "tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
    return made.string();
  }

  static Finished check(const Arguments& more) { return run_ebb(Arguments{"check"} + more); }
};

TEST_F(CheckTest, CountsWhatIsGood) {
  std::filesystem::create_directories(at("in"));
  write_file(at("in/a.jsonl"), "{\"text\": \"ab\"}\n\n{\"text\": \"cde\"}\n");
  write_file(at("in/b.csv"), "text\nfour\n");
  write_file(at("in/c.txt.gz"), io::gzip_of("some text\n"));
  write_file(at("in/empty.txt"), "");
  const Finished run = check({"--model", "preset:tiny", "--data", at("in")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("a.jsonl: 2 texts, 7 tokens\n"),
                             HasSubstr("b.csv: 1 texts, 5 tokens\n"),
                             HasSubstr("c.txt.gz: 1 passages of text, 11 tokens\n"),
                             HasSubstr("empty.txt (it is empty)"),
                             HasSubstr("4 items: 23 tokens, of which 23 of 23 (100%) carry loss"),
                             HasSubstr("All of it can be used")));
  // No colour in a pipe.
  EXPECT_THAT(run.out, Not(HasSubstr("\033")));
}

TEST_F(CheckTest, NamesEveryBadLine) {
  std::string lines;
  for (int i = 1; i <= 300; ++i) {
    lines += i % 3 == 0 ? "{\"text\": 7}\n" : i % 50 == 0 ? "{\"text\": \n" : "{\"text\": \"a\"}\n";
  }
  write_file(at("bad.jsonl"), lines);
  write_file(at("none.jsonl"), "[]\n{\"words\": 1}\n{\"text\": \"\\ud83d\"}\n");
  write_file(at("cut.jsonl.gz"), io::gzip_of(lines).substr(0, 60));
  const Finished run = check({"--tokenizer", "bytes", "--data", at("bad.jsonl"), at("none.jsonl"),
                              at("cut.jsonl.gz"), "--threads", "2"});
  EXPECT_EQ(run.code, 1) << run.err;
  std::size_t from = 0;
  int bad = 0;
  for (int i = 1; i <= 300; ++i) {
    const std::size_t found = run.out.find(fmt::format("bad.jsonl', line {}:", i));
    EXPECT_EQ(found != std::string::npos, i % 3 == 0 || i % 50 == 0) << i;
    if (found == std::string::npos) continue;
    ++bad;
    EXPECT_GE(found, from) << "in order";
    from = found;
  }
  EXPECT_THAT(run.out, AllOf(HasSubstr(fmt::format("{} lines cannot be used", bad)),
                             HasSubstr("none.jsonl', line 1: expected a JSON object"),
                             HasSubstr("none.jsonl', line 2: the keys found are: 'words'"),
                             HasSubstr("none.jsonl', line 3: at byte"),
                             HasSubstr("Cannot be used: " + at("cut.jsonl.gz")),
                             HasSubstr("cut short"), HasSubstr("--on-bad-data skip")));
}

TEST_F(CheckTest, ShowsAnExampleWithWhatIsLearned) {
  const std::string tokenizer = chat_folder("chatml");
  write_file(
      at("chat.jsonl"),
      R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]})"
      "\n");
  const Finished run =
      check({"--tokenizer", tokenizer, "--data", at("chat.jsonl"), "--sequence", "4"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("Example: '" + at("chat.jsonl") + "', line 1\n"),
                             HasSubstr("  -   <|im_start|>\n"), HasSubstr("loss  Y"),
                             HasSubstr("loss  <|im_end|>\n"), Not(HasSubstr("loss  <|im_start|>")),
                             HasSubstr("1 conversations"), HasSubstr("longer than --sequence 4"),
                             HasSubstr("--packing none")));
  const Finished all =
      check({"--tokenizer", tokenizer, "--data", at("chat.jsonl"), "--loss", "all"});
  EXPECT_THAT(all.out, AllOf(HasSubstr("loss  <|im_start|>"), HasSubstr("(100%)")));
}

TEST_F(CheckTest, ShowsConversationsThatBeginAnew) {
  write_file(
      at("chat.jsonl"),
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
      R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})"
      "\n");
  const Finished run = check({"--tokenizer", chat_folder("qwen3"), "--data", at("chat.jsonl")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("The same up to its next answer:\n"));
  // A model that always thinks is taught no answer without a thought; what to write is said.
  const Finished refused = check({"--tokenizer", chat_folder("qwq"), "--data", at("chat.jsonl")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, AllOf(HasSubstr("line 1: "), HasSubstr(R"("<think>\n\n</think>\n\n")")));
}

TEST_F(CheckTest, RefusesWhatItCannotRead) {
  const auto refused = [](const Arguments& more, const std::vector<std::string>& words) {
    const Finished run = check(more);
    EXPECT_EQ(run.code, 1);
    for (const std::string& word : words) EXPECT_THAT(run.err, HasSubstr(word));
  };
  refused({"--data", data}, {"--model", "--tokenizer"});
  refused({"--tokenizer", "bytes", "--data", at("nowhere")}, {"nowhere", "does not exist"});
  refused({"--tokenizer", "bytes", "--data", data, "--sequence", "0"}, {"--sequence 0"});
  write_file(at("a.csv"), "id,body\n1,x\n");
  const Finished csv = check({"--tokenizer", "bytes", "--data", at("a.csv")});
  EXPECT_EQ(csv.code, 1);
  EXPECT_THAT(csv.out, AllOf(HasSubstr("a.csv', row 2"), HasSubstr("--text-column")));
  const Finished named =
      check({"--tokenizer", "bytes", "--data", at("a.csv"), "--text-column", "body"});
  EXPECT_EQ(named.code, 0) << named.err;
}

}  // namespace
}  // namespace ebb::cli
