// What goes wherever a model's weights go: its configuration with all the fields of others, its
// tokenizer, how to generate with it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/model/generation_config.h"
#include "files/model/source.h"
#include "io/file_system.h"
#include "model/config.h"
#include "text/tokenizer_folder.h"

namespace ebb::files {

struct SidecarFiles {
  struct Copy {
    std::string name;
    // Open, so that it can be read when the folder it came from is long gone: a resumed run may
    // have found its model in a checkpoint that it removes in the end.
    std::shared_ptr<io::File> file;
  };

  model::Config config;
  Json stored_config;  // null where there was none
  std::vector<Copy> copies;
};

// `tokenizer_files` are the names of the tokenizer's files in `tokenizer_folder`; none for bytes.
// Texts in `made` are such files that were never files.
SidecarFiles find_sidecar_files(io::FileSystem& files, const ModelSource& source,
                                const std::filesystem::path& tokenizer_folder,
                                std::span<const std::string> tokenizer_files,
                                const std::shared_ptr<const text::TokenizerTexts>& made = {});

// The config.json to write beside weights of this type. Where the model came with one, that one:
// training changes no shape, so only the type of the weights is new, and what Ebb does not know
// stays.
Json config_to_save(const SidecarFiles& sidecar_files, DType dtype);

}  // namespace ebb::files
