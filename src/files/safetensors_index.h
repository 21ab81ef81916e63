// model.safetensors.index.json: which file holds which tensor of a model in several files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"

namespace ebb::files {

inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
inline constexpr Bytes kMaxIndexBytes = 100'000'000;

struct SafetensorsIndex {
  std::map<std::string, std::string, std::less<>> files;  // a tensor's name to its file's
  std::optional<Bytes> total_bytes;  // what metadata.total_size says; files in the wild are wrong

  // Each file once, sorted.
  std::vector<std::string> file_names() const;
};

// Checks everything that can be checked without the files. Every file's name is a plain one that
// ends in .safetensors: an index cannot lead out of its folder. Throws FormatError that names the
// index, the tensor and what to do.
SafetensorsIndex parse_index(std::string_view text, const std::filesystem::path& path);
SafetensorsIndex read_index(io::FileSystem& files, const std::filesystem::path& path);

}  // namespace ebb::files
