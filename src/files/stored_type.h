// Element types as files name them. Ebb computes with a few of them (DType); it can list, copy and
// check all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "ebb/units.h"
#include "states/format.h"

namespace ebb::files {

enum class StoredType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

// The safetensors name: "BF16", "BOOL".
std::string_view name_of(StoredType type);
Bytes size_of(StoredType type);
std::optional<StoredType> try_stored_type(std::string_view name);
// All of them, as an error text lists them: "F64 F32 ...".
std::string stored_type_names();

StoredType stored_type(DType type);
// The type that a plane of a parameter has in files.
StoredType stored_type(states::Plane plane, const states::StateKind& kind);
std::optional<DType> try_dtype(StoredType type);

// The types that weights are read from: F32, BF16 and F16, each a part of fp32.
bool widens_to_float(StoredType type);

// `from` holds elements of a type that widens, as many as `to` takes. Exact: subnormals, infinities
// and NaN stay what they are.
void widen(StoredType type, std::span<const std::byte> from, std::span<float> to);

// Bytes of a tensor; nothing where a dimension is negative or the product leaves 63 bits. No
// dimensions is one element.
std::optional<Bytes> try_bytes_of(StoredType type, std::span<const std::int64_t> shape);

}  // namespace ebb::files
