// Ranks as processes under mpirun: this program starts itself there. What a rank runs are the tests
// of the suite MpiRank, which a program that was started alone skips.
#include "dist/mpi_ranks.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dist/communicator_contract.h"
#include "dist/connect.h"
#include "io/temp_folder.h"

namespace ebb::dist {
namespace {

struct Ran {
  int code = -1;
  std::string output;
  int good = 0;  // ranks that met in the end, and had found nothing wrong
};

constexpr const char* kMeeting = "EBB_TEST_MEETING";

Ran run_under_mpirun(int ranks, const std::string& filter) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const io::TempFolder meeting;
  ::setenv(kMeeting, meeting.path().c_str(), 1);
  // Sanitizers find what Open MPI keeps to its end.
  const std::string command = fmt::format(
      "ASAN_OPTIONS=detect_leaks=0 OMPI_MCA_btl_vader_single_copy_mechanism=none mpirun "
      "--allow-run-as-root --oversubscribe -n {} '{}' --gtest_filter='{}' "
      "--gtest_also_run_disabled_tests --gtest_color=no 2>&1",
      ranks, self, filter);
  Ran ran;
  std::FILE* pipe = popen(command.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    ran.output += static_cast<char>(c);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  for (int r = 0; r < ranks; ++r) {
    std::string verdict;
    std::ifstream(meeting / std::to_string(r)) >> verdict;
    ran.good += verdict == "good" ? 1 : 0;
  }
  return ran;
}

bool can_run() { return has_mpi() && std::system("command -v mpirun > /dev/null") == 0; }

class MpiRanks : public testing::TestWithParam<int> {};

TEST_P(MpiRanks, KeepThePromises) {
  if (!can_run()) GTEST_SKIP() << "no MPI, or no mpirun";
  const Ran ran = run_under_mpirun(GetParam(), "MpiRank.DISABLED_KeepsThePromises");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(ran.good, GetParam()) << ran.output;
}

TEST_P(MpiRanks, TellFailures) {
  if (!can_run()) GTEST_SKIP() << "no MPI, or no mpirun";
  if (GetParam() == 1) return;
  for (const char* test : {"TellsAFailure", "NoticesAnotherLength", "TellsWhoDoesNotAnswer",
                           "TellsWhatItHasNoticed"}) {
    const Ran ran = run_under_mpirun(GetParam(), fmt::format("MpiRank.DISABLED_{}", test));
    // How such a run ends is mpirun's business.
    EXPECT_EQ(ran.good, GetParam()) << test << ran.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MpiRanks, testing::Values(1, 2, 3),
                         [](const auto& info) { return fmt::format("ranks{}", info.param); });

TEST(MpiRanks, AreRefusedWhereTheyAreNotBuilt) {
  if (has_mpi()) GTEST_SKIP() << "they are";
  try {
    connect_by_mpi();
    FAIL() << "there is no MPI";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("libopenmpi-dev"), std::string::npos) << error.what();
  }
}

// What each process runs.

// mpirun ends the others with the first process that leaves MPI without a farewell, as one does
// after a failure: so all wait here until each is done. They meet by files, as MPI may be of no use
// by then.
void meet(const Communicator& ranks) {
  const std::filesystem::path folder = std::getenv(kMeeting);
  const auto file_of = [&](int rank) { return folder / std::to_string(rank); };
  const std::filesystem::path mine = folder / fmt::format("{}.partial", ranks.rank());
  std::ofstream(mine) << (testing::Test::HasFailure() ? "failed" : "good");
  std::filesystem::rename(mine, file_of(ranks.rank()));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int r = 0; r < ranks.size(); ++r) {
    while (!std::filesystem::exists(file_of(r)) && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
  }
}

TEST(MpiRank, DISABLED_KeepsThePromises) {
  const auto ranks = connect_by_mpi();
  for (const Promise& promise : promises()) {
    SCOPED_TRACE(promise.name);
    promise.run(*ranks);
  }
  ranks->barrier();
  meet(*ranks);
}

TEST(MpiRank, DISABLED_TellsAFailure) {
  const auto ranks = connect_by_mpi();
  tells_a_failure(*ranks);
  meet(*ranks);
}

TEST(MpiRank, DISABLED_NoticesAnotherLength) {
  const auto ranks = connect_by_mpi();
  notices_another_length(*ranks);
  meet(*ranks);
}

TEST(MpiRank, DISABLED_TellsWhoDoesNotAnswer) {
  const auto ranks = connect_by_mpi();
  ranks->set_timeout(std::chrono::milliseconds(100));
  int word = 0;
  if (ranks->rank() == 0) {
    expect_failure_of(1, *ranks, "it has not answered",
                      [&] { ranks->receive(1, &word, sizeof word); });
  }
  meet(*ranks);
}

// The one that notices tells the others, which wait for each other without a timeout.
TEST(MpiRank, DISABLED_TellsWhatItHasNoticed) {
  const auto ranks = connect_by_mpi();
  const int last = ranks->size() - 1;
  const auto other = ranks->split();
  int word = 0;
  if (ranks->rank() == 0) {
    ranks->set_timeout(std::chrono::milliseconds(100));
    expect_failure_of(last, *ranks, "it has not answered",
                      [&] { ranks->receive(last, &word, sizeof word); });
    ranks->fail(last, "it has not answered");
  }
  expect_failure_of(last, *ranks, "it has not answered", [&] {
    other->receive((ranks->rank() + 1) % ranks->size(), &word, sizeof word);
  });
  meet(*ranks);
}

}  // namespace
}  // namespace ebb::dist
