#include "checkpoint/stored_type.h"

#include <array>

namespace ebb::checkpoint {
namespace {

struct Known {
  StoredType type;
  std::string_view name;
  Bytes bytes;
};

// In the order of the enumeration.
constexpr std::array kKnown = {
    Known{StoredType::f64, "F64", 8}, Known{StoredType::f32, "F32", 4},
    Known{StoredType::f16, "F16", 2}, Known{StoredType::bf16, "BF16", 2},
    Known{StoredType::i64, "I64", 8}, Known{StoredType::i32, "I32", 4},
    Known{StoredType::i16, "I16", 2}, Known{StoredType::i8, "I8", 1},
    Known{StoredType::u8, "U8", 1},   Known{StoredType::boolean, "BOOL", 1},
};

const Known& known(StoredType type) { return kKnown[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view name_of(StoredType type) { return known(type).name; }
Bytes size_of(StoredType type) { return known(type).bytes; }

std::optional<StoredType> try_stored_type(std::string_view name) {
  for (const Known& entry : kKnown) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
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

}  // namespace ebb::checkpoint
