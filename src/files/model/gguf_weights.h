// The weights of a GGUF file.
#pragma once

#include <vector>

#include "files/gguf/gguf_files.h"
#include "files/model/weights.h"

namespace ebb::files {

// Undoes what such files do to weights: rows of q and k in another order, norms with their offset
// added.
class GgufWeights final : public WeightReader {
 public:
  GgufWeights(io::FileSystem& files, const ModelSource& source,
              const model::Parameters& parameters);

  void read(int parameter, std::int64_t first, std::span<float> to) override;
  kernels::WeightType type(int parameter) const override;
  void read_rows(int parameter, std::int64_t first, std::span<std::byte> to) override;
  std::string where(int parameter) const override;

 private:
  struct Place {
    GgufFiles::Place in;
    std::int64_t columns = 1;      // of a row in the file
    std::int64_t paired_rows = 0;  // of a head, where its rows are in pairs; else 0
    float offset = 0;              // that was added
  };

  void read_stored(const Place& place, std::int64_t first, std::span<float> to);

  GgufFiles files_;
  std::vector<Place> places_;  // of each parameter
  std::vector<std::byte> stored_;
};

}  // namespace ebb::files
