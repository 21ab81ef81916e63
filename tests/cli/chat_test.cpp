// Conversations in a pipe, prompts from files, and texts that end where they should.
#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ChatTest : public SmallCommands {
 protected:
  ChatTest() {
    Json vocabulary = Json::object();
    int id = 0;
    for (char c = ' '; c <= '~'; ++c) vocabulary[std::string(1, c)] = id++;
    vocabulary["\n"] = id++;
    const Json tokenizer{
        {"added_tokens", {{{"id", id}, {"content", "</s>"}, {"special", true}}}},
        {"normalizer", nullptr},
        {"pre_tokenizer", nullptr},
        {"post_processor", nullptr},
        {"decoder", {{"type", "Fuse"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
    std::filesystem::create_directory(at("talk"));
    write_file(at("talk/tokenizer.json"), tokenizer.dump());
    write_file(at("talk/chat_template.jinja"),
               "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ");
  }

  Finished with_input(const Arguments& arguments, const std::string& input) const {
    write_file(at("input"), input);
    const std::string path = at("input");
    return Process(arguments, [path] { ::dup2(::open(path.c_str(), O_RDONLY), STDIN_FILENO); })
        .wait();
  }
  Finished chat(const std::string& input, const Arguments& more = {}) const {
    return with_input(Arguments{"chat", "--model", "preset:tiny", "--tokenizer", at("talk"),
                                "--max-tokens", "6", "--positions", "128"} +
                          more,
                      input);
  }
};

TEST_F(ChatTest, AnswersLinesAndObeysCommands) {
  const std::string saved = at("saved.jsonl");
  const Finished run = chat("/system Be brief.\nhello \\\nworld\n//not a command\n/save " + saved +
                            "\n/undo\n/regenerate\n/set temperature 0.5\n/set temperature hot\n"
                            "/set top-p 7\n/nonsense\n/help\n/reset\n/load " +
                            saved + "\n/quit\nnever read\n");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(Not(HasSubstr("> ")), Not(HasSubstr("hello"))));
  const Json messages = Json::parse(read_file(saved)).at("messages");
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0]["content"], "Be brief.");
  EXPECT_EQ(messages[1]["content"], "hello \nworld");
  EXPECT_EQ(messages[3]["content"], "/not a command");
  EXPECT_THAT(run.out, HasSubstr(messages[2]["content"].get<std::string>() + "\n"));
  for (const char* part :
       {"5 messages in", "2 messages are left", "temperature 0.5 (as given)",
        "/set temperature hot: expected a number", "--top-p 7", "/nonsense is not a command",
        "/regenerate", "The conversation is empty", "4 messages from"}) {
    EXPECT_THAT(run.err, HasSubstr(part));
  }
}

TEST_F(ChatTest, ComputesOnlyWhatIsNewAndSaysWhatItLeavesOut) {
  const Finished run =
      chat("one\ntwo\n" + std::string(60, 'x') + "\n" + std::string(200, 'y') + "\nthree\n");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr(", 0 of them computed before]"),
                    HasSubstr("the model does not see the oldest"), HasSubstr("say it shorter")));
  // "user: one\nassistant: " are 21 tokens, all of which the second prompt begins with.
  EXPECT_THAT(run.err, Not(HasSubstr("prompt of 44, 0 of them")));
}

TEST_F(ChatTest, SaysWhatToDoWithoutATemplate) {
  const Finished run = run_ebb({"chat", "--model", "preset:tiny"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("no chat template"), HasSubstr("--tokenizer FOLDER")));
}

TEST_F(ChatTest, PromptsComeFromFilesAndTheInput) {
  const Arguments generate = {"generate", "--model", "preset:tiny", "--max-tokens", "5"};
  const Finished plain = run_ebb(generate + Arguments{"--prompt", "a b"});
  write_file(at("prompt.txt"), "a b\n");
  EXPECT_EQ(run_ebb(generate + Arguments{"--prompt-file", at("prompt.txt")}).out, plain.out);
  EXPECT_EQ(with_input(generate + Arguments{"--prompt-file", "-"}, "a b").out, plain.out);

  write_file(at("prompts.txt"), "a b\n\nc\n");
  const Finished each = run_ebb(generate + Arguments{"--prompts", at("prompts.txt")});
  ASSERT_EQ(each.code, 0) << each.err;
  std::istringstream lines(each.out);
  std::string line;
  std::vector<Json> answers;
  while (std::getline(lines, line)) answers.push_back(Json::parse(line));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ("a b" + answers[0]["text"].get<std::string>() + "\n", plain.out);
  EXPECT_EQ(answers[1]["prompt"], "c");

  // As many at once as there are sequences for, and the same answers.
  const auto without_times = [](const std::string& out) {
    std::istringstream all(out);
    std::vector<Json> found;
    for (std::string each; std::getline(all, each);) {
      found.push_back(Json::parse(each));
      for (const char* key :
           {"prompt_seconds", "tokens_per_second", "device_peak", "device_limit"}) {
        found.back().erase(key);
      }
    }
    return found;
  };
  const Finished beside =
      run_ebb(generate + Arguments{"--prompts", at("prompts.txt"), "--sequences", "2"});
  ASSERT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(without_times(beside.out), without_times(each.out));
  EXPECT_THAT(run_ebb(generate + Arguments{"--prompt", "a", "--sequences", "2"}).err,
              HasSubstr("--sequences: it is for several prompts"));
  EXPECT_THAT(run_ebb(generate + Arguments{"--prompts", at("prompts.txt"), "--sequences", "0"}).err,
              HasSubstr("--sequences 0: expected 1 to 1024"));

  write_file(at("bad.jsonl"), "{\"prompt\": \"a\"}\n{\"promt\": \"b\"}\n");
  EXPECT_THAT(run_ebb(generate + Arguments{"--prompts", at("bad.jsonl")}).err,
              AllOf(HasSubstr("bad.jsonl:2"), HasSubstr("\"prompt\" or \"messages\"")));
}

TEST_F(ChatTest, LogProbabilitiesNeedJson) {
  const Arguments generate = {"generate",     "--model", "preset:tiny", "--prompt", "a",
                              "--max-tokens", "2",       "--log-probs", "2"};
  EXPECT_THAT(run_ebb(generate).err, HasSubstr("--log-probs: they are part of the JSON"));
  const Json json = Json::parse(run_ebb(generate + Arguments{"--json"}).out);
  EXPECT_EQ(json["log_probabilities"][0]["likeliest"].size(), 2u);
}

}  // namespace
}  // namespace ebb::cli
