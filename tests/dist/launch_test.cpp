#include "dist/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "dist/connect.h"
#include "ebb/error.h"

namespace ebb::dist {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_with(const Variables& variables, const LaunchFlags& flags = {}) {
  return find_launch(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      flags);
}

std::string refusal(const Variables& variables, const LaunchFlags& flags = {}) {
  try {
    const Launch found = launch_with(variables, flags);
    return "took it for rank " + std::to_string(found.rank);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void expect_refused(const Variables& variables, const LaunchFlags& flags, const std::string& word) {
  const std::string text = refusal(variables, flags);
  EXPECT_NE(text.find(word), std::string::npos) << text;
  EXPECT_EQ(text.find("took it"), std::string::npos) << text;
}

void expect_launch(const Launch& found, const Launch& expected) {
  EXPECT_EQ(found.rank, expected.rank);
  EXPECT_EQ(found.ranks, expected.ranks);
  EXPECT_EQ(found.local_rank, expected.local_rank);
  EXPECT_EQ(found.local_ranks, expected.local_ranks);
  EXPECT_EQ(found.launcher, expected.launcher);
  EXPECT_EQ(found.by_mpi, expected.by_mpi);
  EXPECT_EQ(found.rendezvous, expected.rendezvous);
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_RANK", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
const Variables kSlurm = {{"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_PROCID", "3"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                          {"SLURM_NTASKS", "7"}};

TEST(Launch, WithoutALauncherIsOfOneRank) {
  expect_launch(launch_with({}), {});
  EXPECT_TRUE(launch_with({}).alone());
  // A batch script, and a shell that somebody left variables in.
  EXPECT_TRUE(launch_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).alone());
  EXPECT_TRUE(launch_with({{"RANK", "3"}, {"WORLD_SIZE", "8"}}).alone());
}

TEST(Launch, KnowsLaunchers) {
  expect_launch(launch_with(kOpenMpi), {.rank = 4,
                                        .ranks = 6,
                                        .local_rank = 1,
                                        .local_ranks = 3,
                                        .launcher = "Open MPI",
                                        .by_mpi = true});
  expect_launch(launch_with({{"PMI_SIZE", "4"},
                             {"PMI_RANK", "2"},
                             {"MPI_LOCALRANKID", "0"},
                             {"MPI_LOCALNRANKS", "2"}}),
                {.rank = 2, .ranks = 4, .local_ranks = 2, .launcher = "PMI", .by_mpi = true});
  expect_launch(launch_with(kSlurm), {.rank = 3,
                                      .ranks = 7,
                                      .local_rank = 1,
                                      .local_ranks = 3,
                                      .launcher = "Slurm",
                                      .by_mpi = true});
  expect_launch(launch_with({{"TORCHELASTIC_RUN_ID", "none"},
                             {"RANK", "1"},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", "29500"}}),
                {.rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2, .launcher = "torchrun"});
}

TEST(Launch, TakesTheInnermostLauncher) {
  Variables both = kSlurm;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(launch_with(both).launcher, "Open MPI");
}

TEST(Launch, TakesFlagsFirst) {
  expect_launch(launch_with(kOpenMpi, {.ranks = 3, .rank = 2, .rendezvous = "node1:29600"}),
                {.rank = 2, .ranks = 3, .launcher = "--ranks", .rendezvous = "node1:29600"});
  EXPECT_TRUE(launch_with(kOpenMpi, {.ranks = 1}).alone());
}

TEST(Launch, RefusesWhatCannotBe) {
  Variables variables = kOpenMpi;
  variables["OMPI_COMM_WORLD_RANK"] = "6";
  expect_refused(variables, {}, "OMPI_COMM_WORLD_RANK is '6'; expected a whole number from 0 to 5");
  variables["OMPI_COMM_WORLD_RANK"] = "two";
  expect_refused(variables, {}, "OMPI_COMM_WORLD_RANK is 'two'");
  variables.erase("OMPI_COMM_WORLD_RANK");
  expect_refused(variables, {}, "OMPI_COMM_WORLD_RANK is not set");
  variables["OMPI_COMM_WORLD_SIZE"] = "0";
  expect_refused(variables, {}, "OMPI_COMM_WORLD_SIZE is '0'");
  expect_refused({}, {.ranks = 2, .rank = {}, .rendezvous = "a:1"}, "--rank is missing");
  expect_refused({}, {.ranks = 2, .rank = 2, .rendezvous = "a:1"}, "--rank is '2'");
  expect_refused({}, {.ranks = 2, .rank = 1}, "--rendezvous is missing");
  expect_refused({}, {.ranks = {}, .rank = 1}, "--rank is given without --ranks");
  expect_refused({}, {.ranks = -1}, "--ranks is '-1'");
}

TEST(Connect, OfOneRankNeedsNobody) {
  const auto alone = connect({});
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->rank(), 0);
}

TEST(Connect, SaysWhichWayThereIs) {
  try {
    connect({.ranks = 2, .launcher = "torchrun"});
    FAIL() << "they have no way";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("mpirun"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ebb::dist
