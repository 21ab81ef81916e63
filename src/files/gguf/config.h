// What a GGUF file says of its model, as the config.json that transformers would have.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "files/gguf/gguf_files.h"

namespace ebb::files {

// Throws ConfigError for a model that Ebb does not compute (another architecture, another scaling
// of positions, keys that may change what it computes), by name; FormatError where keys are missing
// or do not fit together. The vocabulary's size and whether the head is tied follow from the
// tensors.
Json gguf_config(const GgufFiles& files);

// The name of a parameter's tensor: "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.
// weight". Empty where there is none.
std::string gguf_name(std::string_view parameter);

// Llama's files have the rows of q and k in pairs, as the first implementations rotated them:
// row 2i + s of a head is row s * head_dim / 2 + i elsewhere.
bool pairs_rotated_rows(const GgufFiles& files);
// Which tensors have such rows, and which are norms, whose offset is added, by their names.
bool is_rotated_in_gguf(std::string_view tensor);
bool is_norm_in_gguf(std::string_view tensor);

// What beside parameters may be there: factors of rotary positions, which the configuration holds.
inline constexpr std::string_view kGgufRotaryFactors = "rope_freqs.weight";

}  // namespace ebb::files
