// What stands before the tensors of a GGUF file: keys with values, and the tensors' names, shapes,
// types and places.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "ebb/units.h"
#include "files/gguf/types.h"
#include "io/file.h"

namespace ebb::files {

// The types of values, by their numbers in files.
enum class GgufValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  list,
  u64,
  i64,
  f64
};

// A list stays in the file: a vocabulary is far longer than all the rest.
struct GgufList {
  GgufValueType type = GgufValueType::u8;  // of its items; never a list
  std::int64_t count = 0;
  Bytes offset = 0;  // of the first item, from the start of the file
  Bytes bytes = 0;
};

// Numbers of files below 64 bits fit the signed one; of u64 only what is below 2^63 is accepted.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, GgufList>;

struct GgufTensor {
  std::string name;
  GgufType type;
  std::vector<std::int64_t> shape;  // rows first, as elsewhere; files have it the other way round
  Bytes offset = 0;                 // from the start of the file
  Bytes bytes = 0;

  std::int64_t count() const;
};

// Where a value lies, from the number of its type on, for who copies it.
struct GgufExtent {
  Bytes offset = 0;
  Bytes bytes = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> values;
  std::map<std::string, GgufExtent, std::less<>> extents;  // of the values
  std::vector<GgufTensor> tensors;                         // in the order of their bytes
};

// Parses as hostile: on return every tensor lies inside the file, aligned, without overlap, and its
// size follows from its shape; names and keys are unique. Anything else is a FormatError with file,
// offset, what was expected and what was found. Memory is bounded by the header's bytes, these by
// the file's and by kMaxGgufHeader.
inline constexpr Bytes kMaxGgufHeader = 256 * kMiB;
GgufHeader read_gguf_header(io::File& file);

// The items of a list of this file, one by one. Throws FormatError where the file has changed.
void read_texts(io::File& file, const GgufList& list, FunctionRef<void(std::string text)> visit);
std::vector<double> read_numbers(io::File& file, const GgufList& list);

// Whether it begins as a GGUF file.
bool is_gguf(std::string_view head);

}  // namespace ebb::files
