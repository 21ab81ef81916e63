// Which algorithms a run's matrix products use, where the library has several: found by timing
// once a machine, kept in a file, and stored with every checkpoint as part of the numerics key. So
// every placement and every resume computes with the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "engine/gemm_cache_file.h"
#include "engine/runtime.h"
#include "engine/training_run.h"
#include "io/file_system.h"
#include "kernels/gemm_tuner.h"

namespace ebb::engine {

// For a new run: choices come from the machine's file, and products that have none there are timed
// and added to it. The file is $EBB_GEMM_CACHE, else ebb/products.json in the user's folder for
// caches; with EBB_GEMM_CACHE=off products use the library's own first choice. Does nothing where
// there is nothing to choose. Before the run takes its memory: a search takes some and gives it
// back.
void choose_gemms(io::FileSystem&, Runtime&, const TrainingSettings&, const Note&);

// The same for these products, on a device of which so much may be held.
void choose_gemms(io::FileSystem&, Runtime&, const std::vector<kernels::Product>&, Bytes device,
                  const Note&);

// For a run that goes on: what its key holds (Runtime::numerics() of then) and nothing else.
void use_stored_gemms(Runtime&, const TrainingSettings&, const Json& numerics);

}  // namespace ebb::engine
