// The element types of GGUF files: those that Ebb widens to fp32, and the names of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/weight_type.h"

namespace ebb::files {

using GgufType = kernels::WeightType;

// The type with this number in files; nothing where Ebb does not read it.
std::optional<GgufType> try_gguf_type(std::uint32_t number);
// What people call it, also those that Ebb does not read: "IQ2_XXS", "type 77".
std::string gguf_type_name(std::uint32_t number);
// All that are read, as an error text lists them.
std::string gguf_type_names();

}  // namespace ebb::files
