// Who this process is among those that a launcher started: told by the variables that launchers
// set, or by flags. A pure function of both.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ebb::dist {

struct Launch {
  int rank = 0;
  int ranks = 1;
  // Among the ranks of the same machine; one of one where the launcher does not say.
  int local_rank = 0;
  int local_ranks = 1;
  std::string launcher = {};    // "Open MPI"; empty: none was recognised
  bool by_mpi = false;          // its ranks find each other through MPI
  std::string rendezvous = {};  // "host:port", else

  bool alone() const { return ranks == 1; }
};

struct LaunchFlags {
  std::optional<int> ranks = {};
  std::optional<int> rank = {};
  std::string rendezvous = {};
};

// A variable's value; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

// Flags come before variables. Of several launchers the innermost counts: one that was started by
// another's step has set its own variables. Throws ConfigError that names the variable or the flag,
// what was found and what was expected.
Launch find_launch(const Environment& environment, const LaunchFlags& flags = {});

}  // namespace ebb::dist
