// What a published checkpoint says about itself, in its file manifest.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"

namespace ebb::files {

inline constexpr std::string_view kManifestName = "manifest.json";
// An empty file that makes a folder Ebb's before anything else is in it. In the end it becomes the
// manifest.
inline constexpr std::string_view kDraftName = "ebb-manifest.partial";
inline constexpr int kManifestVersion = 2;  // 1, which has no digest of its own, is read too

struct ManifestFile {
  std::string name;  // a plain file name in the checkpoint's folder
  Bytes bytes = 0;
  std::string digest;  // of the whole file, as Digest::hex gives it
};

struct Manifest {
  std::int64_t version = kManifestVersion;
  std::int64_t step = 0;
  std::vector<ManifestFile> files;
};

// Whether `name` can only be a file directly in a folder: no separators, no "..", not hidden, not
// the manifest itself or its draft.
bool is_plain_name(std::string_view name);

// The manifest as text: from version 2 on with a digest of all that it says.
std::string format_manifest(const Manifest& manifest);

// Throws FormatError where the manifest is not one, of a version that this Ebb cannot read, or not
// what its own digest says, and IoError where there is none. The files are not looked at.
Manifest read_manifest(io::FileSystem& files, const std::filesystem::path& folder);

}  // namespace ebb::files
