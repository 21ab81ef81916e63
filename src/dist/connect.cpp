#include "dist/connect.h"

#include <fmt/format.h>

#include "dist/mpi_ranks.h"
#include "dist/self/self_communicator.h"
#include "ebb/error.h"

namespace ebb::dist {

std::unique_ptr<Communicator> connect(const Launch& launch) {
  if (launch.alone()) return std::make_unique<SelfCommunicator>();
  if (!launch.by_mpi) {
    throw ConfigError(fmt::format(
        "{} started rank {} of {}, but Ebb's ranks talk through MPI alone: start them with mpirun "
        "or srun --mpi=pmix",
        launch.launcher, launch.rank, launch.ranks));
  }
  auto found = connect_by_mpi();
  if (found->rank() == launch.rank && found->size() == launch.ranks) return found;
  throw ConfigError(fmt::format(
      "{} started rank {} of {}, but MPI says that this is rank {} of {}: the MPI that Ebb was "
      "built with does not understand this launcher. Use its own mpirun, or srun --mpi=pmix",
      launch.launcher, launch.rank, launch.ranks, found->rank(), found->size()));
}

}  // namespace ebb::dist
