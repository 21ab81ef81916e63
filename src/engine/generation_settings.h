// How to generate with a model: what its folder says, what the user says, and Ebb's own defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/generate.h"
#include "engine/sampling.h"
#include "files/model/generation_config.h"
#include "files/model/source.h"
#include "text/tokenizer.h"

namespace ebb::engine {

struct GenerationSettings {
  Sampling sampling;
  std::vector<std::int32_t> stops;  // any of these ends the text
  // For people: each choice and where it comes from.
  std::string explanation;
};

// A flag wins over generation_config.json (`stored`), which wins over Ebb's defaults. Texts end at
// the eos ids of generation_config.json, else of config.json, else at the tokenizer's end of text;
// those of the files mean nothing to `bytes`, which knows its own only. Throws ConfigError,
// FormatError.
GenerationSettings choose_generation(std::optional<files::GenerationConfig> stored,
                                     const files::ModelSource& source,
                                     const SamplingOptions& options,
                                     const text::Tokenizer& tokenizer, bool bytes);

}  // namespace ebb::engine
