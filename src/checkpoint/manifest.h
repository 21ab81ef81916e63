// What a published checkpoint says about itself, in its file manifest.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"

namespace ebb::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int kManifestVersion = 1;

struct ManifestFile {
  std::string name;  // a plain file name in the checkpoint's folder
  Bytes bytes = 0;
  std::string digest;  // of the whole file, as Digest::hex gives it
};

struct Manifest {
  int version = kManifestVersion;
  std::int64_t step = 0;
  std::vector<ManifestFile> files;
};

// Whether `name` can only be a file directly in a folder: no separators, no "..", not hidden, not
// the manifest itself.
bool is_plain_name(std::string_view name);

std::string format_manifest(const Manifest& manifest);

// Throws FormatError where the manifest is not one, or of a version that this Ebb cannot read, and
// IoError where there is none. The files are not looked at.
Manifest read_manifest(io::FileSystem& files, const std::filesystem::path& folder);

}  // namespace ebb::checkpoint
