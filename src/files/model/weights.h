// The weights of a model as fp32, whatever files they lie in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "files/model/source.h"
#include "io/file_system.h"
#include "kernels/weight_type.h"
#include "model/parameters.h"

namespace ebb::files {

// Open files in which every parameter was found with its shape, and nothing else. Not for use by
// several threads.
class WeightReader {
 public:
  virtual ~WeightReader() = default;

  // Elements of a parameter from `first` on, which is a multiple of kWeightPiece; so is to.size(),
  // unless the parameter ends there.
  virtual void read(int parameter, std::int64_t first, std::span<float> to) = 0;

  // How a parameter is stored.
  virtual kernels::WeightType type(int parameter) const = 0;
  // Whole rows of a matrix from `first` on, as they are stored.
  virtual void read_rows(int parameter, std::int64_t first, std::span<std::byte> to) = 0;

  // "FILE: tensor NAME", for errors.
  virtual std::string where(int parameter) const = 0;
};

// Throws FormatError that names the file and the tensor: missing, misshapen and surplus ones, and
// types that do not widen to fp32. Not for presets.
std::unique_ptr<WeightReader> open_weights(io::FileSystem& files, const ModelSource& source,
                                           const model::Parameters& parameters);

// As files have it: rows and columns of a matrix, else one number.
std::vector<std::int64_t> shape_of(const model::Parameter& parameter);

}  // namespace ebb::files
