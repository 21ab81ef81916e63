// What is in a model or a checkpoint.
#pragma once

#include <string>

namespace ebb {

struct Inspection {
  std::string text;
  bool sound = true;  // no checksum of a checkpoint was wrong
};

// `path`: a model's folder, a run's folder, a checkpoint, a safetensors file, or preset:NAME.
Inspection inspect(const std::string& path);

}  // namespace ebb
