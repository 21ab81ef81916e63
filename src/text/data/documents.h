// Finds the files that a data set is made of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebb::text {

struct DocumentPath {
  std::filesystem::path path;
  // Below the folder that was given, or the file's own name: the same wherever the data lies.
  std::string name;
  bool given = false;  // by itself, not found in a folder
};

struct SkippedFile {
  std::filesystem::path path;
  std::string reason;
  bool bad = false;  // it was to be read, and cannot be
};

struct DocumentPaths {
  std::vector<DocumentPath> found;
  std::vector<SkippedFile> skipped;
};

// The files among `paths` and those below its folders, in the order given; within a folder sorted
// by name, byte by byte, so that no locale and no file system changes the order. Below a folder,
// what is hidden (".name") is passed over, links to files are followed, links to folders are not
// (they may lead in circles), and what is neither file nor folder is listed as skipped. Throws
// ConfigError for a path that does not exist or is neither file nor folder, IoError for a folder
// that cannot be read. `not_data` are files and folders that are listed as skipped where a folder
// holds them: what a run writes is not what it learns from. They need not exist.
DocumentPaths find_documents(io::FileSystem& files, const std::vector<std::filesystem::path>& paths,
                             const std::vector<std::filesystem::path>& not_data = {});

}  // namespace ebb::text
