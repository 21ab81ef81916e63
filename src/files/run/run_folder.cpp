#include "files/run/run_folder.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "ebb/error.h"
#include "files/folder.h"

namespace ebb::files {

RunFolder::RunFolder(io::FileSystem& files, const std::string& out, bool resume, const Note& note)
    : files_(files), path_(out) {
  if (out.empty()) throw ConfigError("--out: a folder for the run is missing");
  if (files.exists(path_) && !files.is_directory(path_)) {
    throw ConfigError(
        fmt::format("--out {}: this is a file; give the path of a folder, new or empty", out));
  }
  made_ = !files.exists(path_);
  files.make_directories(path_);
  lock_ = std::make_unique<io::FolderLock>(path_, "--out " + out);
  const auto latest = latest_checkpoint(files, path_);
  if (resume) {
    start_ = latest;
    if (!start_) {
      note(fmt::format("--resume: no checkpoint in {}; starting from the beginning", out));
    }
    return;
  }
  const auto entries = files.list(path_);
  const bool empty = std::all_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.filename() == io::FolderLock::kName;
  });
  if (empty) return;
  throw ConfigError(fmt::format("--out {}: the folder is not empty. {}", out,
                                latest ? "Add --resume to go on from its last checkpoint, or give "
                                         "another folder."
                                       : "Give another folder, or empty it."));
}

RunFolder::~RunFolder() {
  if (!made_) return;
  lock_.reset();
  std::error_code ignored;  // it is not empty, or another process has found it already
  std::filesystem::remove(path_, ignored);
}

}  // namespace ebb::files
