// The tensors that a model has in a GGUF file, made of a folder's or a preset's parameters, or
// those of a GGUF file as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/gguf/types.h"
#include "files/model/source.h"

namespace ebb::files {

struct OfferedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // rows first
  // Where it is stored, and can be copied, as GGUF files have it.
  std::optional<GgufType> stored = {};
  // Reads begin and end at multiples of this, or at the end: of rows that are stored in another
  // order, or of blocks.
  std::int64_t grain = 1;

  std::int64_t count() const;
};

// Open files that were checked as GgufWeights and SafetensorsWeights do. Reads may come from
// several threads.
class GgufTensors {
 public:
  virtual ~GgufTensors() = default;

  const std::vector<OfferedTensor>& tensors() const { return tensors_; }

  // Elements from `first` on, as fp32.
  virtual void read(std::size_t tensor, std::int64_t first, std::span<float> to) const = 0;
  // The bytes of such elements of a tensor that is stored so.
  virtual void read_stored(std::size_t tensor, std::int64_t first, std::span<std::byte> to) const;

  // "FILE: tensor NAME", for errors.
  virtual std::string where(std::size_t tensor) const = 0;

 protected:
  std::vector<OfferedTensor> tensors_;
};

// `seed` is for a preset's random weights.
std::unique_ptr<GgufTensors> open_gguf_tensors(io::FileSystem& files, const ModelSource& source,
                                               std::uint64_t seed);

}  // namespace ebb::files
