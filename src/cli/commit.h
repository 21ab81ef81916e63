// The commit that the command was built from, so that a measurement says what it is of.
#pragma once

namespace ebb::cli {

// As `git describe --always --dirty` has it; "unknown" where it was built without git.
extern const char* const kBuildCommit;

}  // namespace ebb::cli
