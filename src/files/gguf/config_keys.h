// The way back of config.h: what a GGUF file says of a model.
#pragma once

#include <string>
#include <vector>

#include "files/gguf/writer.h"
#include "model/config.h"

namespace ebb::files {

// Throws ConfigError that names what in the model GGUF files, as Ebb and llama.cpp read them, have
// no way to say.
void check_gguf_can_say(const model::Config& config, const std::string& model);

// "llama" for Mistral's models, too.
std::string gguf_architecture(const model::Config& config);

// The architecture, shapes and positions. The model was checked.
void add_config_keys(const model::Config& config, GgufKeys& keys);

// What Llama 3.1 divides its frequencies by, one for each; empty for other positions.
std::vector<float> gguf_rotary_factors(const model::Config& config);

}  // namespace ebb::files
