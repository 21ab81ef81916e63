// The promise: nothing that is whole in memory is thrown away. Whatever ends a run, what it trained
// is saved before that is told, and a run that goes on from there ends with the bits of an unbroken
// one.
#include <sys/resource.h>

#include <filesystem>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class SavingTest : public SmallCommands {
 protected:
  // The step of the last checkpoint; 0 for none.
  static int last_step(const std::string& out) {
    int last = 0;
    for (const auto& entry : fs::directory_iterator(out)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step-") && name.find('.') == std::string::npos) {
        last = std::max(last, std::stoi(name.substr(5)));
      }
    }
    return last;
  }

  static std::string digest(const std::string& summary) {
    return Json::parse(read_file(summary))["weights_digest"];
  }
};

TEST_F(SavingTest, WithoutAFlagItSavesAtTheEnd) { EXPECT_EQ(last_step(trained("run", 3)), 3); }

TEST_F(SavingTest, ByTimeByStepsAtTheEndOrNotAtAll) {
  EXPECT_TRUE(fs::exists(step_folder(trained("time", 3, {"--save-every", "0.000001s"}), 2)));
  EXPECT_TRUE(fs::exists(step_folder(trained("steps", 3, {"--save-every", "2"}), 2)));
  const std::string end = trained("end", 3, {"--save-every", "end"});
  EXPECT_FALSE(fs::exists(step_folder(end, 2)));
  EXPECT_EQ(last_step(end), 3);
  const Finished none = run_ebb(train(at("none"), 3) + Arguments{"--save-every", "0"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(last_step(at("none")), 0);
  EXPECT_THAT(none.out, HasSubstr("Nothing will be saved"));
  for (const char* wrong : {"-1", "often", "0min", "1.5", "10 parsecs"}) {
    const Finished refused = run_ebb(train(at("wrong"), 3) + Arguments{"--save-every", wrong});
    EXPECT_EQ(refused.code, 1) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("--save-every")) << wrong;
  }
}

TEST_F(SavingTest, ABadLineOfDataCostsNothingThatWasTrained) {
  const auto lines = [&](const std::string& last) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      text +=
          fmt::format("{{\"text\": \"line {} of a tide that comes in and goes out again\"}}\n", i);
    }
    return text + last;
  };
  data = at("data.jsonl");
  write_file(data, lines("{\"text\": 17}\n"));
  const Arguments command = train(at("run"), 60) + Arguments{"--packing", "none", "--seed", "3"};
  const Finished run = run_ebb(command);
  ASSERT_EQ(run.code, 1) << run.out;
  EXPECT_THAT(run.err, HasSubstr("data.jsonl"));
  EXPECT_THAT(run.err, ContainsRegex("last checkpoint is .*step-000000"));
  const int reached = last_step(at("run"));
  EXPECT_GT(reached, 0);
  EXPECT_THAT(run.out, HasSubstr(fmt::format("step {}/", reached)));
  EXPECT_THAT(run.out, Not(HasSubstr(fmt::format("step {}/", reached + 1))))
      << "a step was trained that was not saved";
}

TEST_F(SavingTest, ANormThatIsNotFiniteCostsNothing) {
  const Finished run = run_ebb(train(at("run"), 50) + Arguments{"--learning-rate", "1e30", "--clip",
                                                                "0", "--weight-decay", "0"});
  ASSERT_EQ(run.code, 1) << run.out;
  EXPECT_THAT(run.err, HasSubstr("not finite"));
  EXPECT_THAT(run.err, ContainsRegex("last checkpoint is .*step-000000"));
  EXPECT_GT(last_step(at("run")), 0);
}

// A file may not grow beyond a limit: the weights of the tiny preset can be written, its states
// not.
TEST_F(SavingTest, WhereStatesCannotBeWrittenTheWeightsAreKept) {
  const std::string whole = trained("whole", 2);
  const auto weights = fs::file_size(step_folder(whole, 2) + "/model.safetensors");
  const auto limit = [&] {
    const rlimit most{weights + 4096, weights + 4096};
    ::setrlimit(RLIMIT_FSIZE, &most);
  };
  Process process(train(at("run"), 2) + Arguments{"--save-patience", "0s"}, limit);
  const Finished run = process.wait();
  EXPECT_EQ(run.signal, 0) << "SIGXFSZ";
  EXPECT_EQ(run.code, 1) << run.out;
  EXPECT_THAT(run.err, HasSubstr("state.safetensors"));
  EXPECT_THAT(run.err, HasSubstr("weights/step-00000002"));
  EXPECT_THAT(run.err, Not(HasSubstr("could not be saved"))) << "tried, and told, twice";
  EXPECT_EQ(read_file(at("run") + "/weights/step-00000002/model.safetensors"),
            read_file(step_folder(whole, 2) + "/model.safetensors"));
}

TEST_F(SavingTest, AReaderThatGoesAwayEndsTheRunAfterASave) {
  const std::string whole = trained("whole", 200, {"--summary", at("whole.json")});
  const Arguments command =
      train(at("run"), 200) + Arguments{"--summary", at("run.json"), "--save-every", "end"};
  Process process(command);
  ASSERT_TRUE(
      process.run_until([&] { return process.out().find("step 2/") != std::string::npos; }));
  process.close_output();
  const Finished run = process.wait();
  EXPECT_EQ(run.signal, 0) << "SIGPIPE";
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("cannot write the output: Broken pipe"));
  EXPECT_THAT(run.err, ContainsRegex("last checkpoint is .*step-"));
  EXPECT_FALSE(fs::exists(at("run.json"))) << "a summary of a run that failed";
  const Finished rest = run_ebb(command + Arguments{"--resume"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("Going on from step"));
  EXPECT_EQ(digest(at("run.json")), digest(at("whole.json")));
}

// What cannot be written first is here that a checkpoint was saved.
TEST_F(SavingTest, AReaderThatGoesAwayBeforeASaveIsToldEndsTheRun) {
  Process process(train(at("run"), 2000) + Arguments{"--save-every", "1"});
  ASSERT_TRUE(
      process.run_until([&] { return process.out().find("step 1/") != std::string::npos; }));
  process.close_output();
  const Finished run = process.wait();
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("cannot write the output: Broken pipe"));
  EXPECT_LT(last_step(at("run")), 2000);
}

}  // namespace
}  // namespace ebb::cli
