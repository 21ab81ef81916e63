// The tokenizer that a model is used with.
#pragma once

#include <filesystem>
#include <string>

#include "engine/model_source.h"
#include "text/tokenizer_folder.h"

namespace ebb::engine {

struct ModelTokenizer {
  text::TokenizerFolder parts;
  std::filesystem::path folder;  // empty: bytes, which need no file

  const text::Tokenizer& tokenizer() const { return *parts.tokenizer; }
};

// That of the folder `given` (--tokenizer); where none is given the model's own, and bytes where it
// brings none. Throws ConfigError where the tokenizer has ids that the model does not know,
// FormatError where its files are not supported.
ModelTokenizer find_tokenizer(const ModelSource& source, const std::string& given = {});

}  // namespace ebb::engine
