// Which kind of file something is, from its name and its first bytes.
#pragma once

#include <filesystem>

#include "io/file_system.h"

namespace ebb::measure {

enum class FileKind {
  safetensors,
  gguf,
  index,
  config,
  generation_config,
  tokenizer,
  manifest,
  training_state,
  profile,
  jsonl,
  tokens,
  text,
};

// Throws FormatError that says what was found and lists what is known.
FileKind identify(io::FileSystem& files, const std::filesystem::path& path);

}  // namespace ebb::measure
