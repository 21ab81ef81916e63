// The weights of a model's folder.
#pragma once

#include <filesystem>
#include <vector>

#include "files/model/weights.h"
#include "files/weight_files.h"

namespace ebb::files {

class SafetensorsWeights final : public WeightReader {
 public:
  SafetensorsWeights(io::FileSystem& files, const ModelSource& source,
                     const model::Parameters& parameters);

  void read(int parameter, std::int64_t first, std::span<float> to) override;
  kernels::WeightType type(int parameter) const override;
  void read_rows(int parameter, std::int64_t first, std::span<std::byte> to) override;
  std::string where(int parameter) const override;

  // The same from any element on, so many. Calls may come from several threads.
  void read_at(int parameter, std::int64_t first, std::span<float> to) const;

  // Where a parameter's values are.
  struct Place {
    const SafetensorsReader* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };

 private:
  WeightFiles weights_;
  std::vector<Place> places_;  // of each parameter
};

// Whether the files of a tied model hold a head that is not its embedding. Weights that are missing
// or damaged hold none: loading them says what is wrong.
bool stores_own_head(io::FileSystem& files, const std::filesystem::path& folder,
                     model::Config config);

}  // namespace ebb::files
