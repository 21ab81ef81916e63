// A model that was opened: what its files say, and its tokenizer. Its weights stay where they are.
#pragma once

#include <memory>
#include <string>

#include "files/model/source.h"
#include "files/model/tokenizer.h"
#include "io/file_system.h"

namespace ebb::engine {

// Immutable, so any thread may use it, and several runs and generators share one.
struct OpenModel {
  files::ModelSource source;
  files::ModelTokenizer tokenizer;

  // What one rendering of its chat template may hold; 0 where it has none.
  Bytes rendering_bytes() const;
};

// `tokenizer` as --tokenizer has it. What the tokenizer takes is within `host_limit`, of which
// `renderers` at a time may render the chat template. Throws ConfigError, IoError, FormatError, and
// OutOfBudget.
std::shared_ptr<const OpenModel> open_model(io::FileSystem& files, const std::string& model,
                                            const std::string& tokenizer, Bytes host_limit,
                                            int renderers);

}  // namespace ebb::engine
