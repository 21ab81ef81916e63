// A run's folder belongs to one process, and what a run will write is proven writable at its start.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/small_commands.h"
#include "scale.h"

namespace ebb::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class RunFolderTest : public SmallCommands {};

TEST_F(RunFolderTest, ASecondProcessIsRefusedAndDamagesNothing) {
  const std::string out = at("run");
  Process first(train(out, 100000) + Arguments{"--save-every", "5", "--keep", "1"});
  ASSERT_TRUE(first.run_until([&] { return first.out().find("step 2/") != std::string::npos; }));
  for (const Arguments& more : {Arguments{}, Arguments{"--resume"}}) {
    const Finished second = run_ebb(train(out, 3) + more);
    EXPECT_EQ(second.code, 1) << second.out;
    EXPECT_THAT(second.err, HasSubstr("is at work there"));
    EXPECT_THAT(second.err, HasSubstr(fmt::format("process {} on ", first.pid())));
  }
  first.send(SIGINT);
  EXPECT_EQ(first.wait().code, 130);
  const Finished after = run_ebb({"inspect", out});
  EXPECT_EQ(after.code, 0) << after.out << after.err;
}

// Rounds of two that start at the same moment: one wins, and what it saved is whole.
TEST_F(RunFolderTest, OfTwoThatStartTogetherOneWins) {
  const int rounds = small_scale() ? 4 : 20;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const std::string out = at(fmt::format("run{}", round));
    const Arguments command = train(out, 6) + Arguments{"--save-every", "1", "--resume"};
    Process one(command), two(command);
    // Both are read at the same time, or one would wait for the other's reader.
    one.run_until([&] { return !two.run_for(0); });
    const Finished first = one.wait();
    const Finished second = two.wait();
    for (const Finished& run : {first, second}) {
      // The second may come when the first has ended: then it finds nothing left to train.
      EXPECT_TRUE(run.code == 0 || run.err.find("is at work there") != std::string::npos)
          << run.err << run.out;
    }
    EXPECT_TRUE(first.code == 0 || second.code == 0);
    const Finished check = run_ebb({"inspect", step_folder(out, 6)});
    EXPECT_EQ(check.code, 0) << check.out << check.err;
  }
}

TEST_F(RunFolderTest, WhatIsRefusedLeavesNoTrace) {
  const Finished refused = run_ebb(train(at("run"), 3) + Arguments{"--device-memory", "1KiB"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_FALSE(fs::exists(at("run")));
}

// Before a model is read: here there is none, which would be the error otherwise.
TEST_F(RunFolderTest, WhatCannotBeWrittenIsToldBeforeAnythingIsRead) {
  const auto refused = [&](const std::string& out, const Arguments& more) {
    const Finished run =
        run_ebb(Arguments{"train", "--model", at("no-model"), "--data", data, "--out", out} +
                batch(1) + more);
    EXPECT_EQ(run.code, 1);
    return run.err;
  };
  write_file(at("file"), "x");
  EXPECT_THAT(refused(at("file") + "/run", {}), HasSubstr("cannot make the folder"));
  EXPECT_THAT(refused(at("run"), {"--summary", at("none/summary.json")}), HasSubstr("--summary"));
  EXPECT_THAT(refused(at("run"), {"--trace", at("file") + "/trace.json"}), HasSubstr("--trace"));
  // A folder that is there and takes no file, not even root's.
  EXPECT_THAT(refused("/proc/self", {}), HasSubstr("cannot create '/proc/self/ebb.lock'"));
}

// What root may rename to, /dev/null among it: a pipe stands for those here.
TEST_F(RunFolderTest, APipeIsNotReplacedByAFile) {
  const std::string pipe = at("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const Arguments& command :
       {train(at("run"), 1) + Arguments{"--trace", pipe},
        Arguments{"plan", "--model", "preset:tiny"} + batch(1) + Arguments{"--trace", pipe},
        Arguments{"probe", "--seconds", "0.01", "--threads", "1", "--out", pipe}}) {
    const Finished run = run_ebb(command);
    EXPECT_EQ(run.code, 1) << command.front();
    EXPECT_THAT(run.err, HasSubstr("Give the path of a file")) << command.front();
    EXPECT_THAT(run.out, Not(HasSubstr("step 1/")));
    EXPECT_TRUE(fs::is_fifo(pipe)) << command.front();
    EXPECT_FALSE(fs::exists(pipe + ".partial")) << command.front();
  }
}

TEST_F(RunFolderTest, ASummaryIsOfThisRunOrNotThere) {
  const std::string summary = at("summary.json");
  trained("run", 1, {"--summary", summary});
  ASSERT_TRUE(fs::exists(summary));
  const Finished failed =
      run_ebb(train(at("other"), 1) + Arguments{"--summary", summary, "--device-memory", "1KiB"});
  EXPECT_EQ(failed.code, 2);
  EXPECT_FALSE(fs::exists(summary));
  const Finished piped = run_ebb(train(at("piped"), 1) + Arguments{"--summary", "/dev/stdout"});
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr("weights_digest"));
}

// As with `> log`: the name of the output is a link to a file then, which root could replace. A
// link of our own stands for /dev/stdout.
TEST_F(RunFolderTest, ASummaryIntoAnOutputThatIsAFileLeavesItsName) {
  const std::string name = at("output"), log = at("log");
  fs::create_symlink("/proc/self/fd/1", name);
  const auto into_log = [&] {
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
  };
  Process process(train(at("run"), 2) + Arguments{"--summary", name}, into_log);
  const Finished run = process.wait();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(fs::is_symlink(name));
  const std::string all = read_file(log);
  EXPECT_THAT(all, HasSubstr("step 2/2"));
  EXPECT_THAT(all, HasSubstr("weights_digest"));
  Process traced(train(at("traced"), 1) + Arguments{"--trace", name}, into_log);
  EXPECT_EQ(traced.wait().code, 1);
  EXPECT_TRUE(fs::is_symlink(name));
}

}  // namespace
}  // namespace ebb::cli
