// The element types of GGUF files: those that Ebb widens to fp32, and the names of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/planes.h"
#include "files/stored_type.h"
#include "kernels/reference/weight_blocks.h"

namespace ebb::files {

// A plain number (F32, F16, BF16), or numbers in blocks.
using GgufType = std::variant<StoredType, kernels::WeightBlock>;

// The type with this number in files; nothing where Ebb does not read it.
std::optional<GgufType> try_gguf_type(std::uint32_t number);
// What people call it, also those that Ebb does not read: "IQ2_XXS", "type 77".
std::string gguf_type_name(std::uint32_t number);
// All that are read, as an error text lists them.
std::string gguf_type_names();

// The number that a type has in files.
std::uint32_t number_of(const GgufType& type);

std::string_view name_of(const GgufType& type);
Grain grain_of(const GgufType& type);

// Whole blocks. Exact for plain numbers; blocks as kernels/reference/weight_blocks.h says.
void widen(const GgufType& type, std::span<const std::byte> from, std::span<float> to);

// The other way: to nearest even for plain numbers, blocks as kernels/reference/quantize_blocks.h
// says. Numbers are finite and at most largest_in(type) in magnitude.
void narrow(const GgufType& type, std::span<const float> from, std::span<std::byte> to);
float largest_in(const GgufType& type);

}  // namespace ebb::files
