// The JSON header of a safetensors file as text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "files/safetensors.h"

namespace ebb::files {

inline constexpr Bytes kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // offsets from the start of the data
  Metadata metadata;
};

// Checks everything that can be checked without the data. `path` is for error texts. The tensors
// come in the order of their bytes and cover [0, data_bytes) without gap or overlap.
SafetensorsHeader parse_header(std::string_view text, Bytes data_bytes,
                               const std::filesystem::path& path);

// Padded with spaces to a multiple of eight bytes.
std::string format_header(const std::vector<TensorSpec>& tensors, const Metadata& metadata,
                          const std::filesystem::path& path);

}  // namespace ebb::files
