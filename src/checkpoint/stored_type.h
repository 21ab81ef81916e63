// Element types as files name them. Ebb computes with a few of them (DType); it can list, copy and
// check all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "ebb/units.h"

namespace ebb::checkpoint {

enum class StoredType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

// The safetensors name: "BF16", "BOOL".
std::string_view name_of(StoredType type);
Bytes size_of(StoredType type);
std::optional<StoredType> try_stored_type(std::string_view name);

StoredType stored_type(DType type);
std::optional<DType> try_dtype(StoredType type);

// Bytes of a tensor; nothing where a dimension is negative or the product leaves 63 bits. No
// dimensions is one element.
std::optional<Bytes> try_bytes_of(StoredType type, std::span<const std::int64_t> shape);

}  // namespace ebb::checkpoint
