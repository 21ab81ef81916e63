#include "dist/mpi_ranks.h"

#include "ebb/error.h"

namespace ebb::dist {

bool has_mpi() { return false; }

std::unique_ptr<Communicator> connect_by_mpi() {
  throw ConfigError(
      "this build of Ebb has no MPI, which the ranks that were started would talk through. Install "
      "an MPI with its headers (Debian: libopenmpi-dev), run cmake again and build, or start one "
      "rank only");
}

}  // namespace ebb::dist
