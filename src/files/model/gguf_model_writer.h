// Writes a model as a GGUF file: streams its tensors through a few buffers, each narrowed to the
// type that the kind of file has for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "files/gguf/file_type.h"
#include "files/model/source.h"
#include "files/model/tokenizer.h"
#include "io/file_system.h"

namespace ebb::files {

struct GgufModelOptions {
  const GgufFileType* type = nullptr;
  std::uint64_t seed = 0;  // of a preset's random weights
  // The tokenizer to write; null: the one that a GGUF file came with, as it is.
  const ModelTokenizer* tokenizer = nullptr;
  bool without_tokenizer = false;  // the file says that it has none
};

// Called on the calling thread, now and then.
using GgufProgress = std::function<void(std::int64_t elements, std::int64_t of)>;

struct WrittenGguf {
  Bytes bytes = 0;  // of the file
  std::int64_t parameters = 0;
  std::map<std::string, std::int64_t> types;  // tensors of each
  std::vector<std::string> fallbacks;         // "NAME as Q5_0": rows that are no whole blocks
  bool requantized = false;                   // blocks were made of blocks: both lost something
  std::vector<std::string> warnings;          // what the file says in another way than the model
};

// The file appears under its name when it is complete and was found to be the same model. The bytes
// do not depend on the pool. Throws ConfigError for what GGUF files cannot say, FormatError for
// weights that are not finite or too large for the type, IoError. Each thread holds a few pieces of
// 512 KiB, or of a head's rows where that is more.
WrittenGguf write_gguf_model(io::FileSystem& files, ThreadPool& pool, const ModelSource& source,
                             const GgufModelOptions& options, const std::filesystem::path& path,
                             const GgufProgress& progress);

}  // namespace ebb::files
