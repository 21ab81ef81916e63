// Kinds of GGUF files, as people name them (q4_k_m): which tensor gets which type. The mix is
// llama.cpp's without an importance matrix, so that a file of a name is what its users know by it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/types.h"

namespace ebb::files {

struct GgufFileType {
  std::string_view name;     // "q4_k_m"
  std::uint32_t number = 0;  // general.file_type
  GgufType type;             // of most tensors
};

std::span<const GgufFileType> gguf_file_types();
// Upper case is as good. Throws ConfigError that lists them; `flag` is where the word came from.
const GgufFileType& gguf_file_type(std::string_view word, std::string_view flag);

// What the mix depends on besides the tensor.
struct MixedModel {
  std::string architecture;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  bool tied = false;  // the table of tokens is also the head
};

struct MixedType {
  GgufType type;
  bool fallback = false;  // its rows are no whole blocks of what the mix says
};

// The type of a tensor, by its name in GGUF files; `shape` is rows first. Vectors are F32.
MixedType type_in_file(const GgufFileType& file, const MixedModel& model, std::string_view name,
                       std::span<const std::int64_t> shape);

}  // namespace ebb::files
