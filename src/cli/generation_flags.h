// The flags of limits and placement that `generate` and `plan generate` share.
#pragma once

#include <CLI/CLI.hpp>

#include "ebb/generate.h"

namespace ebb::cli {

// `options` must outlive the parsing.
void add_generation_placement(CLI::App& verb, GenerateOptions& options);
void add_sequences(CLI::App& verb, GenerateOptions& options);

}  // namespace ebb::cli
