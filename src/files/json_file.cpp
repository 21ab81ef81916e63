#include "files/json_file.h"

#include "io/text_file.h"

namespace ebb::files {

Json read_json(io::FileSystem& files, const std::filesystem::path& path) {
  return parse_json(io::read_text(files, path, kMiB), path.string());
}

}  // namespace ebb::files
