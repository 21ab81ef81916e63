// The tokenizer that a model is used with.
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "files/model/source.h"
#include "io/file_system.h"
#include "text/tokenizer_folder.h"

namespace ebb::files {

inline constexpr Bytes kNoHostLimit = std::numeric_limits<Bytes>::max();

struct ModelTokenizer {
  text::TokenizerFolder parts;
  // Where it came from, which may be a GGUF file; empty: bytes, which need no file.
  std::filesystem::path folder;
  // Its files where they were made of a GGUF file: they go wherever the model goes.
  std::shared_ptr<const text::TokenizerTexts> made = {};

  const text::Tokenizer& tokenizer() const { return *parts.tokenizer; }
  // Bytes that it and its chat template hold, and that one thread needs to encode with it.
  Bytes memory_bytes() const;
};

// What a rendering of a chat template may hold, so that `renderers` at a time take a small part of
// the host's limit.
Bytes rendering_memory(Bytes host_limit, int renderers);

// That of the folder `given` (--tokenizer), or bytes where that is the word given; where none is
// given the one in `model_folder`, and bytes where there is none. Throws FormatError where its
// files are not supported, OutOfBudget where reading them would take more than `host_limit`.
ModelTokenizer load_tokenizer(io::FileSystem& files, const std::filesystem::path& model_folder,
                              const std::string& given, Bytes host_limit = kNoHostLimit);

// The same for a model, which may have its tokenizer in a GGUF file. Throws ConfigError where the
// tokenizer has ids that it does not know.
ModelTokenizer find_tokenizer(io::FileSystem& files, const ModelSource& source,
                              const std::string& given = {}, Bytes host_limit = kNoHostLimit);

}  // namespace ebb::files
