// Signals are answered at once, in every phase, and cost nothing that was trained.
#include <signal.h>

#include <filesystem>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class InterruptTest : public SmallCommands {};

// The first line comes before the plan, the weights and the first step, which takes long here.
TEST_F(InterruptTest, BeforeTheFirstStepItEndsAtOnceAndLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string out = at(fmt::format("run{}", signal));
    Process process(Arguments{"train", "--model", "preset:small", "--data", data, "--out", out,
                              "--sequence", "128", "--micro-batch", "64", "--steps", "2",
                              "--verbose"});
    ASSERT_TRUE(process.run_until([&] { return !process.out().empty(); }));
    process.send(signal);
    const Finished run = process.wait();
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_THAT(run.err, HasSubstr("before the first step"));
    EXPECT_THAT(run.out, Not(HasSubstr("step 1/")));
    // What it left does not stand in the way of the next try.
    const Finished again = run_ebb(train(out, 1));
    EXPECT_EQ(again.code, 0) << again.err;
  }
}

TEST_F(InterruptTest, WhileItTrainsItIsAnsweredAtOnceAndSaves) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string out = at(fmt::format("run{}", signal));
    Process process(train(out, 100000) + Arguments{"--save-every", "end"});
    ASSERT_TRUE(
        process.run_until([&] { return process.out().find("step 2/") != std::string::npos; }));
    process.send(signal);
    ASSERT_TRUE(
        process.run_until([&] { return process.err().find("interrupted") != std::string::npos; }));
    const Finished run = process.wait();
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_THAT(run.out, ContainsRegex("Saved .*step-000"));
  }
}

TEST_F(InterruptTest, AHangUpThatIsIgnoredStaysIgnored) {
  Process process(train(at("run"), 30), [] { ::signal(SIGHUP, SIG_IGN); });
  ASSERT_TRUE(
      process.run_until([&] { return process.out().find("step 2/") != std::string::npos; }));
  process.send(SIGHUP);
  const Finished run = process.wait();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("step 30/"));
}

}  // namespace
}  // namespace ebb::cli
