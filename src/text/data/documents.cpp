#include "text/data/documents.h"

#include <fmt/format.h>

#include <set>
#include <system_error>

#include "ebb/error.h"

namespace ebb::text {

namespace fs = std::filesystem;

namespace {

// Without links and dots, so that two spellings of one place are equal.
fs::path place_of(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(path), error);
  if (!place.has_filename()) place = place.parent_path();
  return place;
}

using Places = std::set<fs::path>;

// What cannot be looked at (a link that leads in a circle or where one may not go) is no file, and
// is listed as such: a folder of data may hold anything.
bool is_so(bool (io::FileSystem::*question)(const fs::path&), io::FileSystem& files,
           const fs::path& path) {
  try {
    return (files.*question)(path);
  } catch (const IoError&) {
    return false;
  }
}

void walk(io::FileSystem& files, const fs::path& folder, const std::string& prefix,
          const Places& not_data, DocumentPaths& out) {
  for (const fs::path& path : files.list(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with('.')) continue;
    const bool is_link = is_so(&io::FileSystem::is_link, files, path);
    if (!not_data.empty() && not_data.contains(place_of(path))) {
      out.skipped.push_back({path, "the run itself writes it"});
    } else if (is_so(&io::FileSystem::is_directory, files, path)) {
      if (is_link) {
        out.skipped.push_back({path, "it is a link to a folder"});
      } else {
        walk(files, path, prefix + name + "/", not_data, out);
      }
    } else if (is_so(&io::FileSystem::is_file, files, path)) {
      out.found.push_back({path, prefix + name});
    } else {
      out.skipped.push_back({path, is_link ? "its link leads to no file" : "it is not a file"});
    }
  }
}

}  // namespace

DocumentPaths find_documents(io::FileSystem& files, const std::vector<fs::path>& paths,
                             const std::vector<fs::path>& not_data) {
  DocumentPaths out;
  Places places;
  for (const fs::path& path : not_data) places.insert(place_of(path));
  for (const fs::path& path : paths) {
    if (files.is_directory(path)) {
      walk(files, path, "", places, out);
    } else if (files.is_file(path)) {
      out.found.push_back({path, path.filename().string(), true});
    } else {
      throw ConfigError(fmt::format(
          "the data '{}' {}", path.string(),
          files.exists(path) ? "is neither a file nor a folder; give a file or a folder of files"
                             : "does not exist; give the path of a file or of a folder of files"));
    }
  }
  return out;
}

}  // namespace ebb::text
