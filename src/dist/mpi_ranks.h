// Ranks that an MPI launcher started, as processes; in no_mpi/ a build without MPI refuses.
#pragma once

#include "dist/communicator.h"

namespace ebb::dist {

// Whether this build has MPI.
bool has_mpi();

// All ranks of MPI_COMM_WORLD. MPI is initialised with the first call in the process, which is the
// only one, and finalised when the last communicator is gone. Throws ConfigError where the build
// has no MPI or the library allows no calls from several threads.
std::unique_ptr<Communicator> connect_by_mpi();

}  // namespace ebb::dist
