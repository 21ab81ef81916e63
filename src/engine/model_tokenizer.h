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

// That of the folder `given` (--tokenizer), or bytes where that is the word given; where none is
// given the one in `model_folder`, and bytes where there is none. Throws FormatError where its
// files are not supported.
ModelTokenizer load_tokenizer(const std::filesystem::path& model_folder, const std::string& given);

// The same for a model. Throws ConfigError where the tokenizer has ids that it does not know.
ModelTokenizer find_tokenizer(const ModelSource& source, const std::string& given = {});

}  // namespace ebb::engine
