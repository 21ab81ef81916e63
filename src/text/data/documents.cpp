#include "text/data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "ebb/error.h"

namespace ebb::text {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> sorted_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (error) {
    throw IoError(
        fmt::format("cannot list the folder '{}': {}; make it readable or leave it out "
                    "of the data",
                    folder.string(), error.message()));
  }
  std::ranges::sort(names);
  return names;
}

// Without links and dots, so that two spellings of one place are equal.
fs::path place_of(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(path), error);
  if (!place.has_filename()) place = place.parent_path();
  return place;
}

using Places = std::set<fs::path>;

void walk(const fs::path& folder, const std::string& prefix, const Places& not_data,
          DocumentPaths& out) {
  for (const std::string& name : sorted_names(folder)) {
    const fs::path path = folder / name;
    std::error_code error;  // an unreachable target is no regular file, which is all that matters
    const bool is_link = fs::is_symlink(path, error);
    if (!not_data.empty() && not_data.contains(place_of(path))) {
      out.skipped.push_back({path, "the run itself writes it"});
    } else if (fs::is_directory(path, error)) {
      if (is_link) {
        out.skipped.push_back({path, "it is a link to a folder"});
      } else {
        walk(path, prefix + name + "/", not_data, out);
      }
    } else if (fs::is_regular_file(path, error)) {
      out.found.push_back({path, prefix + name});
    } else {
      out.skipped.push_back({path, is_link ? "its link leads to no file" : "it is not a file"});
    }
  }
}

}  // namespace

DocumentPaths find_documents(const std::vector<fs::path>& paths,
                             const std::vector<fs::path>& not_data) {
  DocumentPaths out;
  Places places;
  for (const fs::path& path : not_data) places.insert(place_of(path));
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) {
      walk(path, "", places, out);
    } else if (fs::is_regular_file(status)) {
      out.found.push_back({path, path.filename().string(), true});
    } else if (fs::exists(status)) {
      throw ConfigError(
          fmt::format("the data '{}' is neither a file nor a folder; give a file or a folder of "
                      "files",
                      path.string()));
    } else if (status.type() == fs::file_type::not_found) {
      throw ConfigError(
          fmt::format("the data '{}' does not exist; give the path of a file or of a folder of "
                      "files",
                      path.string()));
    } else {
      throw IoError(
          fmt::format("cannot look at the data '{}': {}; make it readable or leave it out",
                      path.string(), error.message()));
    }
  }
  return out;
}

}  // namespace ebb::text
