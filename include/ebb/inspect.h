// What is in a file or a folder, and what Ebb can do with it.
#pragma once

#include <string>

namespace ebb {

struct Inspection {
  std::string text;   // for people
  std::string json;   // the same for programs: one object
  bool sound = true;  // no checksum of a checkpoint was wrong
};

// `path`: preset:NAME, or the path of anything that Ebb reads: a model's folder or one of its files
// (safetensors, index, config.json, tokenizer.json, ...), a GGUF file, a run, a checkpoint,
// training data. What is recognized but cannot be used is described, with the reason; what is not
// recognized is a FormatError that lists what would be.
Inspection inspect(const std::string& path);

}  // namespace ebb
