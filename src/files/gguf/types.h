// The element types of GGUF files: those that Ebb widens to fp32, and the names of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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
// The number that a type has in files.
std::uint32_t number_of(GgufType type);

// Numbers as files hold them: to nearest even for plain ones, blocks as
// kernels/reference/quantize_blocks.h says. They are finite and at most largest_in(type) in
// magnitude.
void narrow(GgufType type, std::span<const float> from, std::span<std::byte> to);
float largest_in(GgufType type);

}  // namespace ebb::files
