#include "files/stored_type.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/half.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

struct Known {
  StoredType type;
  std::string_view name;
  Bytes bytes;
};

// All types, in the order of the enumeration.
constexpr std::array kKnown = {
    Known{StoredType::f64, "F64", 8},         Known{StoredType::f32, "F32", 4},
    Known{StoredType::f16, "F16", 2},         Known{StoredType::bf16, "BF16", 2},
    Known{StoredType::f8_e4m3, "F8_E4M3", 1}, Known{StoredType::f8_e5m2, "F8_E5M2", 1},
    Known{StoredType::i64, "I64", 8},         Known{StoredType::i32, "I32", 4},
    Known{StoredType::i16, "I16", 2},         Known{StoredType::i8, "I8", 1},
    Known{StoredType::u64, "U64", 8},         Known{StoredType::u32, "U32", 4},
    Known{StoredType::u16, "U16", 2},         Known{StoredType::u8, "U8", 1},
    Known{StoredType::boolean, "BOOL", 1},
};

const Known& known(StoredType type) { return kKnown[static_cast<std::size_t>(type)]; }

// Element by element: the bytes need not be aligned.
template <class Stored, class Convert>
void widen_each(std::span<const std::byte> from, std::span<float> to, Convert convert) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, from.data() + i * sizeof stored, sizeof stored);
    to[i] = convert(stored);
  }
}

}  // namespace

std::string_view name_of(StoredType type) { return known(type).name; }
Bytes size_of(StoredType type) { return known(type).bytes; }

std::optional<StoredType> try_stored_type(std::string_view name) {
  for (const Known& entry : kKnown) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

std::string stored_type_names() {
  std::string names;
  for (const Known& entry : kKnown) (names += names.empty() ? "" : " ") += entry.name;
  return names;
}

bool widens_to_float(StoredType type) {
  return type == StoredType::f32 || type == StoredType::bf16 || type == StoredType::f16;
}

void widen(StoredType type, std::span<const std::byte> from, std::span<float> to) {
  switch (type) {
    case StoredType::f32: std::memcpy(to.data(), from.data(), to.size_bytes()); return;
    case StoredType::bf16:
      return widen_each<bf16>(from, to, [](bf16 value) { return to_float(value); });
    case StoredType::f16: return widen_each<std::uint16_t>(from, to, half_to_float);
    default: throw FormatError(fmt::format("{} does not widen to fp32", name_of(type)));
  }
}

StoredType stored_type(DType type) {
  switch (type) {
    case DType::f32: return StoredType::f32;
    case DType::bf16: return StoredType::bf16;
    case DType::i16: return StoredType::i16;
    case DType::i32: break;
  }
  return StoredType::i32;
}

StoredType stored_type(states::Plane plane, const states::StateKind& kind) {
  switch (plane) {
    case states::Plane::weight: return stored_type(kind.weight_type);
    case states::Plane::low: return StoredType::i16;
    case states::Plane::first:
    case states::Plane::second: break;
    case states::Plane::scales: return StoredType::u8;
  }
  switch (kind.format) {
    case states::StateFormat::exact: return StoredType::f32;
    case states::StateFormat::bf16: return StoredType::bf16;
    case states::StateFormat::int8: break;
  }
  return StoredType::u8;
}

std::optional<DType> try_dtype(StoredType type) {
  switch (type) {
    case StoredType::f32: return DType::f32;
    case StoredType::bf16: return DType::bf16;
    case StoredType::i16: return DType::i16;
    case StoredType::i32: return DType::i32;
    default: return std::nullopt;
  }
}

std::optional<Bytes> try_bytes_of(StoredType type, std::span<const std::int64_t> shape) {
  Bytes bytes = size_of(type);
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace ebb::files
