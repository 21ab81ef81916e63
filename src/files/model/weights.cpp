#include "files/model/weights.h"

#include "files/model/gguf_weights.h"
#include "files/model/safetensors_weights.h"

namespace ebb::files {

std::unique_ptr<WeightReader> open_weights(io::FileSystem& files, const ModelSource& source,
                                           const model::Parameters& parameters) {
  if (!source.file.empty()) return std::make_unique<GgufWeights>(files, source, parameters);
  return std::make_unique<SafetensorsWeights>(files, source, parameters);
}

std::vector<std::int64_t> shape_of(const model::Parameter& parameter) {
  return parameter.matrix ? std::vector{parameter.rows, parameter.cols}
                          : std::vector{parameter.rows};
}

}  // namespace ebb::files
