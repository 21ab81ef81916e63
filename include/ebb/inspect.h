// What is in a model or a checkpoint.
#pragma once

#include <string>

namespace ebb {

// `path`: a model's folder, a run's folder, a checkpoint, a safetensors file, or preset:NAME.
std::string inspect(const std::string& path);

}  // namespace ebb
