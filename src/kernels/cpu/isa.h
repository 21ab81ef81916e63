// Which instruction set Ebb's own CPU kernels run on: the best that they were compiled for and the
// processor has, or what EBB_ISA names. (Matrix products are oneDNN's, which chooses for itself.)
// All kernels of the process follow it, so it is chosen once, before the first of them runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::kernels {

// The levels to choose from on this processor, the best first: "avx3", "avx2", ... "scalar".
std::vector<std::string> isa_levels();

// The level in use.
std::string isa_in_use();

// No level better than `name` is used from now on. Throws ConfigError, which lists the levels, for
// one that the processor does not have.
void use_isa(std::string_view name);

// Whether the optimizer's kernels ask for memory ahead: on 16 cores of an Emerald Rapids Xeon int8
// states win a quarter by it, on an EPYC (Zen 4) exact ones lose a tenth.
bool fetching_pays();
// For tests: as if it did, or not.
void set_fetching(bool pays);

// As the environment's EBB_ISA says; nothing where it is not set.
void use_isa_of_environment();

}  // namespace ebb::kernels
