#include "files/step_folders.h"

#include <charconv>

#include <fmt/format.h>

#include "ebb/error.h"
#include "files/manifest.h"

namespace ebb::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

// What tells that the folder is Ebb's goes last, and not before the rest is gone for good.
void remove_folder(io::FileSystem& files, const fs::path& folder) {
  for (const fs::path& entry : files.list(folder)) {
    const fs::path name = entry.filename();
    if (name != kManifestName && name != kDraftName) files.remove_all(entry);
  }
  files.sync_directory(folder);
  files.remove_all(folder);
}

bool has_manifest(io::FileSystem& files, const fs::path& folder) {
  try {
    if (!files.exists(folder / kManifestName)) return false;
    read_manifest(files, folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string step_folder_name(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<StepFolderName> try_parse_step_folder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [rest, code] = std::from_chars(begin, end, step);
  if (code != std::errc{} || step < 0) return std::nullopt;
  std::string suffix(rest, end);
  if (step_folder_name(step) + suffix != name) return std::nullopt;
  if (!suffix.empty() && suffix != kPartial && suffix != kOld) return std::nullopt;
  return StepFolderName{step, std::move(suffix)};
}

StepFolders find_step_folders(io::FileSystem& files, const fs::path& root) {
  StepFolders found;
  if (!files.is_directory(root)) return found;
  for (const fs::path& entry : files.list(root)) {
    const std::optional<StepFolderName> name = try_parse_step_folder(entry);
    if (!name || !files.is_directory(entry)) continue;
    if (name->suffix == kPartial) {
      found.leftovers.push_back(entry);
    } else if (files.exists(entry / kManifestName)) {
      // Sorted by name, so the folder itself comes before its ".old" and wins.
      if (!found.published.emplace(name->step, entry).second) found.leftovers.push_back(entry);
    }
  }
  return found;
}

bool is_ours(io::FileSystem& files, const fs::path& folder) {
  const std::optional<StepFolderName> name = try_parse_step_folder(folder);
  if (!name || files.is_link(folder) || !files.is_directory(folder)) {
    return false;
  }
  if (name->suffix == kPartial && (files.exists(folder / kDraftName) || files.list(folder).empty()))
    return true;
  return has_manifest(files, folder);
}

void refuse_foreign(io::FileSystem& files, const fs::path& folder) {
  if (!files.exists(folder) || is_ours(files, folder)) return;
  throw IoError(fmt::format(
      "'{}' is in the way of a checkpoint: expected nothing there, or what Ebb saved, found "
      "something without a manifest of Ebb's, which Ebb does not touch. Move it away, or give "
      "another --out.",
      folder.string()));
}

void discard(io::FileSystem& files, const fs::path& folder) {
  if (!files.exists(folder)) return;
  const std::int64_t step = try_parse_step_folder(folder).value().step;
  const fs::path root = io::parent_of(folder);
  const fs::path partial = root / (step_folder_name(step) + std::string(kPartial));
  if (folder != partial) {
    if (files.exists(partial)) {
      if (!is_ours(files, partial)) return;
      remove_folder(files, partial);
    }
    files.rename(folder, partial);
    files.sync_directory(root);
  }
  remove_folder(files, partial);
}

}  // namespace ebb::files
