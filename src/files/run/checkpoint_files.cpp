#include "files/run/checkpoint_files.h"

#include "files/folder.h"

namespace ebb::files {

void verify_checkpoint(io::FileSystem& files, const std::filesystem::path& folder) {
  verify(
      files, folder,
      {.required = {kCheckpointFiles.begin(), kCheckpointFiles.end()}, .skip = {}, .advice = {}});
}

}  // namespace ebb::files
