// The folders of a run's checkpoints: how they are called, and which of them are Ebb's to rename
// and to remove. A folder that only has such a name is somebody's own and stays as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"

namespace ebb::files {

inline constexpr std::string_view kPartial = ".partial";
inline constexpr std::string_view kOld = ".old";

std::string step_folder_name(std::int64_t step);

struct StepFolderName {
  std::int64_t step = 0;
  std::string suffix;  // none, kPartial or kOld
};

// Nothing for names that Ebb would not have given.
std::optional<StepFolderName> try_parse_step_folder(const std::filesystem::path& folder);

// Told by their names and that of a manifest in them alone.
struct StepFolders {
  std::map<std::int64_t, std::filesystem::path> published;
  std::vector<std::filesystem::path> leftovers;  // never checkpoints, or replaced ones
};

// None where there is no root.
StepFolders find_step_folders(io::FileSystem& files, const std::filesystem::path& root);

// Whether the folder holds an Ebb manifest that can be read, or is a ".partial" with a draft of
// one, or an empty ".partial", which a crash may leave and nobody misses. Links never are.
bool is_ours(io::FileSystem& files, const std::filesystem::path& folder);

// Throws IoError where something is there that is not Ebb's.
void refuse_foreign(io::FileSystem& files, const std::filesystem::path& folder);

// Removes a folder that is Ebb's; nothing there is no failure. One that may count as published
// stops doing so in one rename, before any of it is removed. A crash in between leaves a ".partial"
// that is still Ebb's. Where that name is somebody else's, the folder stays.
void discard(io::FileSystem& files, const std::filesystem::path& folder);

}  // namespace ebb::files
