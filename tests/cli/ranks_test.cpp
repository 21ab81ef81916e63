// Ranks as processes under mpirun: the command ends as it does on one rank, goes on with any number
// of them, and notices one that dies or stands still.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "cli/small_commands.h"
#include "dist/mpi_ranks.h"

namespace ebb::cli {
namespace {

constexpr const char* kMpirun = "/usr/bin/mpirun";

class RankCommands : public SmallCommands {
 protected:
  void SetUp() override {
    if (!dist::has_mpi() || !std::filesystem::exists(kMpirun)) GTEST_SKIP() << "no MPI here";
    // Sanitizers find what Open MPI keeps to its end.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  }

  Arguments of_run(const std::string& out, int steps, int accumulate,
                   const Arguments& more = {}) const {
    return train(at(out), steps) +
           Arguments{"--device", "cpu",          "--schedule",
                     "constant", "--accumulate", std::to_string(accumulate)} +
           more;
  }

  static Arguments under_mpirun(int ranks, const Arguments& arguments) {
    return Arguments{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
                     std::to_string(ranks), ebb_command()} +
           arguments;
  }

  Finished run_ranks(int ranks, const Arguments& arguments) const {
    Process process(under_mpirun(ranks, arguments), {}, kMpirun);
    return process.wait();
  }

  // What a run has ended with; the checkpoint of `steps` too.
  Json summary(const std::string& name) const { return Json::parse(read_file(at(name + ".json"))); }
  Arguments with_summary(const std::string& name) const {
    return {"--summary", at(name + ".json")};
  }
  static void expect_same(const Json& found, const Json& expected) {
    for (const char* key : {"weights_digest", "moments_digest"}) {
      EXPECT_EQ(found.at(key), expected.at(key)) << key;
    }
  }
};

TEST_F(RankCommands, EndAsOneRankDoes) {
  const Finished alone = run_ebb(of_run("one", 4, 4) + with_summary("one"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Finished two = run_ranks(2, of_run("two", 4, 2) + with_summary("two"));
  ASSERT_EQ(two.code, 0) << two.out << two.err;
  expect_same(summary("two"), summary("one"));
  EXPECT_EQ(read_file(step_folder(at("two"), 4) + "/model.safetensors"),
            read_file(step_folder(at("one"), 4) + "/model.safetensors"));
  EXPECT_EQ(read_file(step_folder(at("two"), 4) + "/state.safetensors"),
            read_file(step_folder(at("one"), 4) + "/state.safetensors"));
  // Rank 0 alone speaks.
  const std::string line = "step 4/4";
  const auto first = two.out.find(line);
  EXPECT_NE(first, std::string::npos) << two.out;
  EXPECT_EQ(two.out.find(line, first + 1), std::string::npos) << two.out;
}

TEST_F(RankCommands, GoOnWithAnotherNumber) {
  const Finished alone = run_ebb(of_run("one", 6, 6) + with_summary("one"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Finished begun = run_ranks(3, of_run("run", 2, 2));
  ASSERT_EQ(begun.code, 0) << begun.out << begun.err;
  const Finished more = run_ranks(2, of_run("run", 4, 2, {"--resume"}));
  ASSERT_EQ(more.code, 0) << more.out << more.err;
  EXPECT_NE(more.out.find("6 micro-batches a step"), std::string::npos) << more.out;
  const Finished last = run_ebb(of_run("run", 6, 6, {"--resume"}) + with_summary("run"));
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same(summary("run"), summary("one"));
}

TEST_F(RankCommands, AreRefusedWhereTheyDiffer) {
  Arguments both = under_mpirun(1, of_run("run", 2, 1));
  Arguments other = under_mpirun(1, of_run("run", 2, 1, {"--seed", "5"}));
  both.push_back(":");
  both.insert(both.end(), other.begin() + 4, other.end());  // behind mpirun's own options
  Process process(both, {}, kMpirun);
  const Finished run = process.wait();
  EXPECT_NE(run.code, 0);
  EXPECT_NE(run.err.find("differ in seed: 0 and 5"), std::string::npos) << run.out << run.err;
}

TEST_F(RankCommands, AreRefusedWhatTheyCannotDo) {
  const Finished run =
      run_ranks(2, train(at("run"), 2) + Arguments{"--device", "cpu", "--disk", at("disk")});
  EXPECT_NE(run.code, 0);
  EXPECT_NE(run.err.find("--disk"), std::string::npos) << run.err;
}

// The processes that mpirun started.
std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> found;
  const std::string path = fmt::format("/proc/{0}/task/{0}/children", parent);
  std::istringstream text(read_file(path));
  for (pid_t pid = 0; text >> pid;) {
    if (read_file(fmt::format("/proc/{}/cmdline", pid)).find("train") != std::string::npos) {
      found.insert(pid);
    }
  }
  return found;
}

// One stands still, which mpirun does not notice.
TEST_F(RankCommands, NoticeOneThatStandsStill) {
  const Arguments arguments =
      of_run("run", 100'000, 1, {"--save-every", "3", "--rank-timeout", "10s"});
  Process process(under_mpirun(2, arguments), {}, kMpirun);
  ASSERT_TRUE(process.run_until([&] { return process.out().find("Saved") != std::string::npos; }))
      << process.out() << process.err();
  const std::set<pid_t> ranks = children_of(process.pid());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(*ranks.rbegin(), SIGSTOP);
  const Finished run = process.wait();
  EXPECT_NE(run.code, 0);
  EXPECT_NE(run.err.find("it has not answered"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("--resume goes on from it"), std::string::npos) << run.err;
  const Finished again = run_ebb(Arguments{"inspect", at("run")});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(RankCommands, EndWithOneThatIsKilled) {
  const Arguments arguments = of_run("run", 100'000, 1, {"--save-every", "3"});
  Process process(under_mpirun(2, arguments), {}, kMpirun);
  ASSERT_TRUE(process.run_until([&] { return process.out().find("Saved") != std::string::npos; }))
      << process.out() << process.err();
  const std::set<pid_t> ranks = children_of(process.pid());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(*ranks.rbegin(), SIGKILL);
  const Finished run = process.wait();
  EXPECT_NE(run.code, 0);
  const Finished more = run_ebb(Arguments{"inspect", at("run")});
  EXPECT_EQ(more.code, 0) << more.err;
}

}  // namespace
}  // namespace ebb::cli
