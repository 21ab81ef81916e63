#include "dist/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::dist {
namespace {

// A launcher by the variables that it sets. What is empty it does not set.
struct Launcher {
  const char* name;
  const char* sign;  // set where it started this process, and only there
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;
  bool by_mpi;
};

// Slurm sets its variables in whatever it starts, mpirun included, and a batch script is no step:
// so it comes last, and asks for a step.
constexpr std::array kLaunchers = {
    Launcher{"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK",
             "LOCAL_WORLD_SIZE", false},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    Launcher{"PMI", "PMI_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    Launcher{"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
             "SLURM_LOCALID", "", true},
};

constexpr int kMostRanks = 1 << 16;

int number(const std::string& name, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw ConfigError(fmt::format("{} is {}; expected a whole number from {} to {}", name,
                                  in_quotes(text), least, most));
  }
  return value;
}

// Slurm's "4(x2),3" for the nodes of a step; where tasks are spread unevenly a node's own number is
// not among its variables, and the largest does.
int tasks_per_node(const std::string& text) {
  int most = 0;
  for (std::size_t at = 0; at < text.size();) {
    int value = 0;
    const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (code != std::errc{}) return 0;
    most = std::max(most, value);
    const std::size_t comma = text.find(',', static_cast<std::size_t>(end - text.data()));
    if (comma == std::string::npos) break;
    at = comma + 1;
  }
  return most;
}

Launch by_variables(const Environment& environment, const Launcher& launcher) {
  const auto require = [&](const char* name) {
    if (auto value = environment(name)) return *value;
    throw ConfigError(
        fmt::format("{} started this process, but {} is not set; it says which of "
                    "the ranks this is",
                    launcher.name, name));
  };
  Launch launch{.launcher = launcher.name, .by_mpi = launcher.by_mpi};
  launch.ranks = number(launcher.ranks, require(launcher.ranks), 1, kMostRanks);
  launch.rank = number(launcher.rank, require(launcher.rank), 0, launch.ranks - 1);
  if (const auto local = environment(launcher.local_rank)) {
    launch.local_rank = number(launcher.local_rank, *local, 0, launch.ranks - 1);
  }
  if (const auto local = environment(launcher.local_ranks)) {
    launch.local_ranks = number(launcher.local_ranks, *local, 1, launch.ranks);
  } else if (const auto nodes = environment("SLURM_STEP_TASKS_PER_NODE");
             nodes && std::string_view(launcher.name) == "Slurm") {
    launch.local_ranks = std::clamp(tasks_per_node(*nodes), 1, launch.ranks);
  }
  launch.local_ranks = std::max(launch.local_ranks, launch.local_rank + 1);
  return launch;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Launch find_launch(const Environment& environment, const LaunchFlags& flags) {
  if (flags.ranks) {
    Launch launch{.launcher = "--ranks", .rendezvous = flags.rendezvous};
    launch.ranks = number("--ranks", std::to_string(*flags.ranks), 1, kMostRanks);
    if (launch.alone()) return launch;
    if (!flags.rank) {
      throw ConfigError(fmt::format(
          "--rank is missing: with --ranks {} each process says which of them it is, from 0 to {}",
          launch.ranks, launch.ranks - 1));
    }
    launch.rank = number("--rank", std::to_string(*flags.rank), 0, launch.ranks - 1);
    if (flags.rendezvous.empty()) {
      throw ConfigError(
          "--rendezvous is missing: HOST:PORT at which rank 0 waits for the others, such as "
          "node1:29600");
    }
    return launch;
  }
  if (flags.rank || !flags.rendezvous.empty()) {
    throw ConfigError(fmt::format("{} is given without --ranks, the number of them",
                                  flags.rank ? "--rank" : "--rendezvous"));
  }
  for (const Launcher& launcher : kLaunchers) {
    if (environment(launcher.sign)) return by_variables(environment, launcher);
  }
  return {};
}

}  // namespace ebb::dist
