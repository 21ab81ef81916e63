// Data of all kinds, as a user gives it.
#include <cstring>
#include <sstream>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DataTest : public SmallCommands {
 protected:
  DataTest() {
    std::string lines, prompts, words;
    for (int i = 0; i < 60; ++i) {
      lines +=
          fmt::format("{{\"text\": \"line {} of the tide, which comes in and goes out\"}}\n", i);
      prompts +=
          fmt::format("{{\"prompt\": \"What is {}? \", \"completion\": \"It is {}.\"}}\n", i, i);
    }
    for (int i = 0; i < 100; ++i) words += fmt::format("{{\"text\": \"word {}\"}}\n", i * i);
    write_file(at("words.jsonl"), words);
    write_file(at("texts.jsonl"), lines);
    write_file(at("prompts.jsonl"), prompts);
  }

  Arguments train_on(const std::string& file, const std::string& out, int steps) const {
    return Arguments{"train", "--model", "preset:tiny", "--data", file, "--out", out} +
           batch(steps) + Arguments{"--schedule", "constant"};
  }

  Json summary_of(const Arguments& command, const std::string& name) const {
    const Finished run = run_ebb(command + Arguments{"--summary", at(name)});
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? Json::parse(read_file(at(name))) : Json();
  }

  void expect_refused(const Arguments& command, const std::vector<std::string>& words) const {
    const Finished run = run_ebb(command);
    EXPECT_EQ(run.code, 1) << run.out;
    for (const std::string& word : words) EXPECT_THAT(run.err, HasSubstr(word));
  }
};

// Data that takes longer to read than the first steps: every save knows all of it.
TEST_F(DataTest, TheFirstSaveKnowsAllOfTheData) {
  std::filesystem::resize_file(data, std::uintmax_t{6} << 30);
  const Finished run = run_ebb(train_on(data, at("out"), 3) + Arguments{"--save-every", "1"} +
                               Arguments{"--keep", "3"});
  ASSERT_EQ(run.code, 0) << run.err;
  for (const int step : {1, 2, 3}) {
    const Json state = Json::parse(read_file(step_folder(at("out"), step) + "/training.json"));
    EXPECT_EQ(state["data"]["training"]["files"][0]["digest"].get<std::string>().size(), 32u)
        << "step " << step << ": " << state["data"].dump();
  }
}

// Promise 3, for every way the data is laid into rows.
TEST_F(DataTest, StoppedAndResumedEndsWithTheSameBits) {
  const std::vector<std::pair<std::string, Arguments>> cases = {
      {"texts.jsonl", {}},
      {"words.jsonl", {"--packing", "fit", "--eval-share", "0.2"}},
      {"prompts.jsonl", {"--loss", "all"}},
      {"prompts.jsonl", {"--packing", "stream"}}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [file, flags] = cases[i];
    const std::string n = std::to_string(i);
    const Json whole = summary_of(train_on(at(file), at("whole" + n), 6) + flags, "whole.json");
    const Finished half = run_ebb(train_on(at(file), at("half" + n), 3) + flags);
    ASSERT_EQ(half.code, 0) << half.err;
    const Json rest = summary_of(
        train_on(at(file), at("half" + n), 6) + flags + Arguments{"--resume"}, "rest.json");
    EXPECT_EQ(whole["weights_digest"], rest["weights_digest"]) << file;
    EXPECT_EQ(whole["moments_digest"], rest["moments_digest"]) << file;
    EXPECT_EQ(whole["tiers"]["host"]["measured_peak"], whole["tiers"]["host"]["predicted_peak"]);
  }
}

// Validating shows in the log and the summary, and nowhere else.
TEST_F(DataTest, ValidationChangesNothingAndIsLogged) {
  const Json plain = summary_of(train_on(at("texts.jsonl"), at("plain"), 5), "plain.json");
  const Arguments flags = {"--eval-data", at("words.jsonl"), "--eval-every", "2"};
  const Json looked =
      summary_of(train_on(at("texts.jsonl"), at("looked"), 5) + flags, "looked.json");
  EXPECT_EQ(plain["weights_digest"], looked["weights_digest"]);
  EXPECT_EQ(plain["moments_digest"], looked["moments_digest"]);
  EXPECT_TRUE(plain["validation_losses"].empty());
  const auto losses = looked["validation_losses"].get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 3u);  // after steps 2, 4 and, at the end, 5
  EXPECT_LT(losses[2], losses[0]);
  std::vector<int> steps;
  std::istringstream log(read_file(at("looked") + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const Json json = Json::parse(line);
    if (json.contains("validation_loss")) steps.push_back(json["step"].get<int>());
  }
  EXPECT_EQ(steps, (std::vector<int>{2, 4, 5}));
  EXPECT_EQ(looked["tiers"]["host"]["measured_peak"], looked["tiers"]["host"]["predicted_peak"]);
  EXPECT_EQ(looked["tiers"]["device"]["measured_peak"], plain["tiers"]["device"]["measured_peak"]);
}

TEST_F(DataTest, JsonIsNotTakenForText) {
  write_file(at("list.json"), R"([{"text": "a tide"}, {"text": "another tide"}])");
  expect_refused(train_on(at("list.json"), at("json"), 1),
                 {"list.json", "one object a line", ".jsonl"});
}

TEST_F(DataTest, PromptsCarryNoLossUnlessAsked) {
  const Json some = summary_of(train_on(at("prompts.jsonl"), at("a"), 2), "a.json");
  const Json all =
      summary_of(train_on(at("prompts.jsonl"), at("b"), 2) + Arguments{"--loss", "all"}, "b.json");
  EXPECT_GT(some["counted_tokens"], 0);
  EXPECT_LT(some["counted_tokens"], all["counted_tokens"]);
  EXPECT_LT(all["counted_tokens"], all["tokens"]);
  expect_refused(train_on(at("prompts.jsonl"), at("a"), 4) + Arguments{"--resume", "--loss", "all"},
                 {"data.loss", "completion"});
}

TEST_F(DataTest, ExamplesThatAreCutAreCounted) {
  const Finished run = run_ebb(train_on(at("texts.jsonl"), at("a"), 2) +
                               Arguments{"--packing", "none", "--summary", at("a.json")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 of the examples of step 1 were longer than --sequence 32"));
  const Json summary = Json::parse(read_file(at("a.json")));
  EXPECT_EQ(summary["cut_examples"], 4);
  EXPECT_GT(summary["cut_tokens"], 0);
}

TEST_F(DataTest, TokenizedOnceAndTrainedOn) {
  const Finished made = run_ebb({"tokenize", "--tokenizer", "bytes", "--data", at("texts.jsonl"),
                                 data, "--out", at("made.tokens")});
  ASSERT_EQ(made.code, 0) << made.err;
  const auto tokens =
      static_cast<std::int64_t>((std::filesystem::file_size(at("made.tokens")) - 128) / 2);
  EXPECT_THAT(made.out, AllOf(HasSubstr(fmt::format("{} tokens of 2 bytes from 2 files", tokens)),
                              HasSubstr("100% of"), HasSubstr("/s")));
  const Finished run = run_ebb(train_on(at("made.tokens"), at("run"), 2));
  EXPECT_EQ(run.code, 0) << run.err;

  expect_refused({"tokenize", "--tokenizer", "bytes", "--data", data, "--out", at("made.tokens")},
                 {"made.tokens", "already"});
  expect_refused({"tokenize", "--data", data, "--out", at("b")}, {"--tokenizer", "--model"});
  expect_refused(
      {"tokenize", "--tokenizer", "bytes", "--data", at("prompts.jsonl"), "--out", at("b")},
      {"prompts.jsonl", "carry loss", "ebb train"});
  EXPECT_FALSE(std::filesystem::exists(at("b")));
  // Made with another tokenizer.
  std::string other = read_file(at("made.tokens"));
  other[40] = other[40] == '0' ? '1' : '0';
  write_file(at("other.tokens"), other);
  expect_refused(train_on(at("other.tokens"), at("no"), 2), {"other.tokens", "another tokenizer"});
}

TEST_F(DataTest, TokensOfOtherPrograms) {
  std::string file(1024, '\0');
  const std::int32_t header[3] = {20240520, 1, 1000};
  std::memcpy(file.data(), header, sizeof header);
  for (int i = 0; i < 1000; ++i) file += {static_cast<char>(i % 256), '\0'};
  write_file(at("llmc.bin"), file);
  const Finished run = run_ebb(train_on(at("llmc.bin"), at("run"), 2));
  EXPECT_EQ(run.code, 0) << run.err;
  file[1024 + 2 * 700 + 1] = '\x7f';
  write_file(at("bad.bin"), file);
  expect_refused(train_on(at("bad.bin"), at("no"), 40),
                 {"bad.bin", "offset 2424", "token 701", "vocabulary"});
  write_file(at("cut.bin"), file.substr(0, 2000));
  expect_refused(train_on(at("cut.bin"), at("no2"), 2), {"cut.bin", "1000 tokens", "found 2000"});
}

TEST_F(DataTest, BadFlags) {
  const auto with = [&](const Arguments& flags) {
    return train_on(at("texts.jsonl"), at("out"), 2) + flags;
  };
  expect_refused(with({"--packing", "tight"}), {"--packing 'tight'", "stream", "fit", "none"});
  expect_refused(with({"--loss", "some"}), {"--loss 'some'", "completion", "all"});
  expect_refused(with({"--on-bad-data", "ask"}), {"--on-bad-data 'ask'", "stop", "skip"});
  expect_refused(with({"--eval-every", "5"}), {"--eval-every 5", "--eval-data", "--eval-share"});
  expect_refused(with({"--eval-share", "1.5"}), {"--eval-share 1.5", "between 0 and 1"});
  expect_refused(with({"--eval-share", "0.1", "--eval-data", data}), {"one of them"});
  expect_refused(with({"--eval-batches", "0"}), {"--eval-batches 0", "at least 1"});
  expect_refused(with({"--eval-data", at("nowhere")}), {"nowhere", "does not exist"});
  expect_refused(with({"--tokenizer", at("nowhere")}), {"--tokenizer", "tokenizer.json", "bytes"});
  expect_refused(train_on(data, at("out"), 2) + Arguments{"--packing", "fit"},
                 {"data.txt", "plain text", "--packing stream"});
  EXPECT_FALSE(std::filesystem::exists(at("out")));
}

// Told at the first one and at the end, counted in the summary, and the same bits after a stop.
TEST_F(DataTest, BadLinesAreSkippedWhereAsked) {
  std::string lines = read_file(at("texts.jsonl"));
  lines.insert(lines.find('\n') + 1, "{\"text\": \n\n");
  write_file(at("bad.jsonl"), lines + "{\"text\": \"caf\xe9\"}\n");
  const Arguments skip = {"--on-bad-data", "skip"};
  const auto train = [&](const std::string& out, int steps) {
    return train_on(at("bad.jsonl"), at(out), steps) + skip;
  };
  expect_refused(train_on(at("bad.jsonl"), at("stopped"), 90), {"bad.jsonl', line "});
  const Finished run = run_ebb(train("whole", 90) + Arguments{"--summary", at("whole.json")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("bad.jsonl', line "), HasSubstr("There may be more"),
                             HasSubstr("bad items skipped, the first: ")));
  const Json whole = Json::parse(read_file(at("whole.json")));
  EXPECT_GE(whole["bad_items"], 2);
  EXPECT_THAT(whole["first_bad_item"].get<std::string>(), HasSubstr("bad.jsonl"));
  const Json half = summary_of(train("half", 45), "half.json");
  const Json rest = summary_of(train("half", 90) + Arguments{"--resume"}, "rest.json");
  EXPECT_EQ(rest["weights_digest"], whole["weights_digest"]);
  EXPECT_EQ(half["bad_items"].get<int>() + rest["bad_items"].get<int>(), whole["bad_items"]);

  const Finished made = run_ebb(Arguments{"tokenize", "--tokenizer", "bytes", "--data",
                                          at("bad.jsonl"), "--out", at("made.tokens")} +
                                skip);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("2 bad items skipped"), HasSubstr("line 2")));
  std::string none;
  for (int i = 0; i < 9; ++i) none += "{\"text\": 1}\n";
  write_file(at("none.jsonl"), none);
  expect_refused(train_on(at("none.jsonl"), at("no"), 2) + skip,
                 {"no item of the data can be used", "none.jsonl', line "});
  expect_refused(Arguments{"tokenize", "--tokenizer", "bytes", "--data", at("none.jsonl"), "--out",
                           at("no.tokens")} +
                     skip,
                 {"no item of the data can be used", "none.jsonl', line 1"});
  EXPECT_FALSE(std::filesystem::exists(at("no.tokens")));
}

// Prompts that fill the row leave nothing to learn: others are taken.
TEST_F(DataTest, BatchesWithoutTargetsAreSkipped) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{{\"prompt\": \"{}{}\", \"completion\": \"fine\"}}\n", i,
                         i % 5 == 0 ? "?" : std::string(60, 'x'));
  }
  write_file(at("some.jsonl"), lines);
  const Finished run =
      run_ebb(train_on(at("some.jsonl"), at("run"), 12) + Arguments{"--summary", at("a.json")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("batches were skipped of which no token counts for the loss"));
  EXPECT_GT(Json::parse(read_file(at("a.json")))["steps_without_targets"], 0);

  write_file(at("none.jsonl"),
             "{\"prompt\": \"" + std::string(60, 'x') + "\", \"completion\": \"y\"}\n");
  expect_refused(train_on(at("none.jsonl"), at("no"), 2), {"whole epoch", "--sequence 32"});
  // Found before the first step, not after the last.
  const Finished refused = run_ebb(train_on(at("some.jsonl"), at("no2"), 2) +
                                   Arguments{"--eval-data", at("none.jsonl")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("none of the tokens to validate on counts for the loss"),
                                 HasSubstr("--sequence 32")));
  EXPECT_THAT(refused.out, testing::Not(HasSubstr("step 1/2")));
}

TEST_F(DataTest, BadLines) {
  // A blank line is none of them.
  write_file(at("bad.jsonl"), "{\"text\": \"fine\"}\n\n{\"text\": \"fine \\ud83d\"}\n");
  expect_refused(train_on(at("bad.jsonl"), at("out"), 2),
                 {"bad.jsonl', line 3", "half of a character"});
  write_file(at("bad.jsonl"), "{\"question\": \"a\", \"answer\": \"b\"}\n");
  expect_refused(train_on(at("bad.jsonl"), at("out"), 2),
                 {"bad.jsonl', line 1", "'question', 'answer'", "\"prompt\" and \"completion\""});
  write_file(at("bad.jsonl"), "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n");
  expect_refused(train_on(at("bad.jsonl"), at("out"), 2),
                 {"bad.jsonl', line 1", "chat template", "\"prompt\", \"completion\""});
}

}  // namespace
}  // namespace ebb::cli
