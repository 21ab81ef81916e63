// Flags from a file, and runs that go on from the settings which their folder keeps.
#include <filesystem>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class ConfigTest : public SmallCommands {
 protected:
  // The command with a file of these lines.
  Finished with_file(const Arguments& command, const std::string& lines) const {
    write_file(file, lines);
    return run_ebb(command + Arguments{"--config", file});
  }
  std::string refusal_of(const std::string& lines) const {
    const Finished run = with_file({"train", "--out", at("refused")}, lines);
    EXPECT_EQ(run.code, 1) << run.out;
    EXPECT_FALSE(fs::exists(at("refused"))) << "a refused run left a folder";
    return run.err;
  }
  Json summary(const std::string& name) const { return Json::parse(read_file(at(name))); }

  std::string file = at("run.toml");
  std::string usual = "model = 'preset:tiny'\nsequence = 32\nmicro-batch = 2\nsteps = 3\n";
};

TEST_F(ConfigTest, AFileIsTheCommandLine) {
  trained("flags", 3,
          {"--learning-rate", "1e-3", "--state-format", "int8", "--nesterov=false", "--summary",
           at("flags.json")});
  const std::string lines =
      "# A comment, and one behind a value.\n" + usual + "data = ['" + data +
      "'] # \"quoted\"\n\nlearning_rate = 1e-3\nstate-format = \"int8\"\nnesterov = false\n"
      "device-memory = \"1GiB\"\nresume = true\nsave-every = \"end\"\n";
  const Finished run =
      with_file({"train", "--out", at("file"), "--summary", at("file.json")}, lines);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("starting from the beginning"));
  EXPECT_EQ(summary("file.json")["weights_digest"], summary("flags.json")["weights_digest"]);
  EXPECT_EQ(summary("file.json")["tiers"]["device"]["limit"], 1 << 30);
}

TEST_F(ConfigTest, TheCommandLineWins) {
  const std::string lines = usual + "data = 'nowhere'\noffload-fraction = 0.25\n";
  const Finished run = with_file({"train", "--out", at("run"), "--data", data, "--steps", "2",
                                  "--use-cpu-offloading", "--summary", at("s.json")},
                                 lines);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(summary("s.json")["steps"], 2);
  EXPECT_THAT(summary("s.json")["plan"].get<std::string>(), HasSubstr("--offload-fraction 1"));
}

TEST_F(ConfigTest, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(refusal_of(usual + "\nlearnin-rate = 1\n"),
              AllOf(HasSubstr("--config " + file + ", line 6: learnin-rate"),
                    HasSubstr("did you mean learning-rate?")));
  EXPECT_THAT(refusal_of("steps = 2\nsteps = 3\n"), AllOf(HasSubstr("line 2"), HasSubstr("steps")));
  EXPECT_THAT(refusal_of("steps = \n"), HasSubstr("line 1: not TOML"));
  EXPECT_THAT(refusal_of("model = 'a'\nsteps = 'many'\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("many"), HasSubstr("--steps")));
  EXPECT_THAT(refusal_of("states = 'moon'\n"),
              AllOf(HasSubstr("--states 'moon'"), HasSubstr("line 1")));
  EXPECT_THAT(refusal_of("steps = [1, 2]\n"), HasSubstr("steps takes one value"));
  EXPECT_THAT(refusal_of("steps = true\n"), HasSubstr("steps takes a value"));
  EXPECT_THAT(refusal_of("nesterov = 'yes'\n"), HasSubstr("nesterov should be true or false"));
  EXPECT_THAT(refusal_of("[optimizer]\nclip = 1\n"), HasSubstr("without [sections]"));
  EXPECT_THAT(refusal_of("steps = 2024-01-01\n"), HasSubstr("a text or a number"));
  EXPECT_THAT(refusal_of("save-cheap = 1\nkeep-cheap = 2\n"), HasSubstr("under two names"));
  EXPECT_THAT(refusal_of("config = 'other.toml'\n"), HasSubstr("config is no flag"));
  EXPECT_THAT(refusal_of("model = 'preset:tiny'\n"),
              AllOf(HasSubstr("--data is required"), HasSubstr("ebb train --help")));
  const Finished none = run_ebb({"train", "--config", at("nowhere.toml")});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("nowhere.toml"), HasSubstr("cannot be read")));
}

TEST_F(ConfigTest, PlansTakeTheFileOfATraining) {
  const Finished plan = with_file({"plan"}, usual + "save-every = 5\nout = 'run'\n");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("needed"));
  const Finished refused = with_file({"plan"}, usual + "prompt = 'a'\n");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("prompt is no flag of 'plan'"));
}

TEST_F(ConfigTest, GenerateTakesAFile) {
  const Finished end = with_file({"generate", "--max-tokens", "3"},
                                 "model = 'preset:tiny'\nprompt = \"a # b\"\ntemperature = 0\n");
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(end.out.starts_with("a # b")) << end.out;
  EXPECT_THAT(end.err, HasSubstr("temperature 0 (as given)"));
}

class ResumeTest : public ConfigTest {};

// Stopped after three steps of six: --save-every 3 leaves a checkpoint of step 3 beside the last.
TEST_F(ResumeTest, TheFolderAloneGoesOn) {
  const Arguments flags = {"--schedule",      "wsd",
                           "--learning-rate", "0.00123",
                           "--save-every",    "3",
                           "--clip",          "0.7",
                           "--seed",          "18446744073709551615",
                           "--device-memory", "1 GiB"};
  const std::string whole = trained("whole", 6, flags + Arguments{"--summary", at("whole.json")});
  const std::string half = trained("half", 6, flags);
  fs::remove_all(step_folder(half, 6));
  const Finished rest = run_ebb({"train", "--resume", half, "--summary", at("half.json")});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.out, AllOf(HasSubstr("Going on from step 3"), HasSubstr("step 6/6")));
  EXPECT_EQ(summary("half.json")["steps_this_run"], 3);
  EXPECT_EQ(summary("half.json")["weights_digest"], summary("whole.json")["weights_digest"]);
  EXPECT_EQ(summary("half.json")["moments_digest"], summary("whole.json")["moments_digest"]);
  EXPECT_EQ(summary("half.json")["tiers"]["device"]["limit"], 1 << 30);
  // The file serves --config, too.
  const Finished again =
      run_ebb({"train", "--config", half + "/settings.toml", "--out", at("third"), "--steps", "1"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(ResumeTest, PathsAreKeptFromTheRootOn) {
  const std::string here = folder.path().string();
  Process process({"train", "--model", "preset:tiny", "--data", "data.txt", "--out", "run",
                   "--sequence", "32", "--micro-batch", "2", "--steps", "1"},
                  [&] {
                    if (::chdir(here.c_str()) != 0) ::_exit(126);
                  });
  const Finished run = process.wait();
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string kept = read_file(at("run/settings.toml"));
  EXPECT_THAT(kept, AllOf(HasSubstr("preset:tiny"), HasSubstr(at("data.txt")),
                          HasSubstr("sequence = 32\n"), HasSubstr("learning-rate = 0.0003\n"),
                          Not(HasSubstr("\nresume")), Not(HasSubstr("\nout ="))));
  const Finished rest = run_ebb({"train", "--resume", at("run"), "--schedule", "cosine"});
  EXPECT_EQ(rest.code, 0) << rest.err;
}

TEST_F(ResumeTest, WhatCannotGoOnIsRefused) {
  EXPECT_THAT(run_ebb({"train", "--resume", at("none")}).err,
              AllOf(HasSubstr("--resume " + at("none")), HasSubstr("no such folder")));
  const std::string run = trained("run", 1);
  EXPECT_THAT(run_ebb({"train", "--resume", step_folder(run, 1)}).err,
              AllOf(HasSubstr("no settings.toml"), HasSubstr("not that of a checkpoint")));
  EXPECT_THAT(run_ebb({"train", "--resume", run, "--out", at("")}).err,
              HasSubstr("leave --out out"));
  // As a run of the library, which keeps no settings unless it is told to.
  fs::remove(run + "/settings.toml");
  EXPECT_EQ(run_ebb({"train", "--resume", run}).code, 1);
  const Finished told = run_ebb(
      Arguments{"train", "--model", "preset:tiny", "--data", data, "--resume", run} + batch(1));
  EXPECT_EQ(told.code, 0) << told.err;
}

// A run that is prolonged has the bits of one that was asked for so many steps from the start.
TEST_F(ResumeTest, StepsMayGrowWhereTheScheduleAllowsIt) {
  for (const std::string schedule : {"constant", "wsd"}) {
    SCOPED_TRACE(schedule);
    const Arguments flags = {"--schedule", schedule, "--save-every", "2"};
    trained("long-" + schedule, 5, flags + Arguments{"--summary", at("long.json")});
    // The checkpoint of step 2: behind it wsd decays in a run of 3.
    const std::string run = trained("short-" + schedule, 3, flags);
    fs::remove_all(step_folder(run, 3));
    const Finished rest =
        run_ebb({"train", "--resume", run, "--steps", "5", "--summary", at("short.json")});
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_THAT(rest.out, AllOf(HasSubstr("Going on from step 2"), HasSubstr("step 5/5")));
    EXPECT_EQ(summary("short.json")["weights_digest"], summary("long.json")["weights_digest"]);
    EXPECT_EQ(summary("short.json")["moments_digest"], summary("long.json")["moments_digest"]);
    // And from now on that is what the folder says.
    EXPECT_THAT(read_file(run + "/settings.toml"), HasSubstr("\nsteps = 5\n"));
  }
}

TEST_F(ResumeTest, StepsThatCannotGrowSayWhatToDo) {
  const std::string run = trained("run", 3, {"--save-every", "2"});
  const Finished refused = run_ebb({"train", "--resume", run, "--steps", "5"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("optimizer.schedule.steps: 3 in the checkpoint, 5 now"),
                                 HasSubstr("--schedule constant"), HasSubstr("--steps 2 for")));
  EXPECT_THAT(read_file(run + "/settings.toml"), HasSubstr("\nsteps = 3\n"));
}

}  // namespace
}  // namespace ebb::cli
