// The flags that `generate` and `chat` share.
#pragma once

#include <CLI/CLI.hpp>

#include "ebb/generate.h"

namespace ebb::cli {

// How tokens are chosen and where a text ends. `options` must outlive the parsing, here and below.
void add_sampling(CLI::App& verb, SamplingOptions& options);

// The model, its tokenizer, and where it computes within which limits.
void add_model(CLI::App& verb, GenerateOptions& options);

}  // namespace ebb::cli
