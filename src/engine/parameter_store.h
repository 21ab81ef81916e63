// The parameters and their optimizer states as one thing, wherever their chunks lie: what loads,
// saves and digests use. Between steps only, with empty lanes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "engine/chunk_parts.h"
#include "engine/executor.h"
#include "model/parameters.h"
#include "optim/format.h"
#include "plan/program.h"

namespace ebb::engine {

using optim::Plane;

class ParameterStore {
 public:
  // Keeps references to all of it.
  ParameterStore(Executor& executor, const plan::Program& program,
                 const model::Parameters& parameters, const ChunkMap& map,
                 const optim::StateKind& kind);

  const model::Parameters& parameters() const { return parameters_; }
  const optim::StateKind& kind() const { return kind_; }

  // Elements [first, first + count) of a parameter's plane, as they are stored: whole grains, so
  // `first` is a multiple of the grain's. A weight is written to every place that keeps one, so
  // that no stale copy is left.
  void read(Plane plane, int parameter, std::int64_t first, std::int64_t count, void* to);
  void write(Plane plane, int parameter, std::int64_t first, std::int64_t count, const void* from);

  // The fp32 master: split into weight and low half, or joined from them.
  void write_master(int parameter, std::int64_t first, std::span<const float> values);
  void read_master(int parameter, std::int64_t first, std::span<float> values);

  // A moment as fp32, whatever its format. `first` is a multiple of kernels::kStateBlock.
  void read_moment(Plane plane, int parameter, std::int64_t first, std::span<float> values);

  // Starts anew: moments of zero everywhere.
  void clear_moments();

  // Of the fp32 masters, and of the moments as fp32, parameter by parameter in checkpoint
  // order: equal bits, equal digest, wherever they lie.
  std::string weights_digest();
  std::string moments_digest();

  // Elements that callers handle at a time: bounds their staging memory.
  static constexpr std::int64_t kPiece = 64 << 10;

 private:
  template <class Visit>
  void for_ranges(int parameter, std::int64_t first, std::int64_t count, Visit visit);
  std::byte* address(Plane plane, int chunk, std::int64_t in_chunk);
  std::byte* host_weight(int chunk, std::int64_t in_chunk);
  optim::Grain grain(Plane plane) const { return optim::grain_of(plane, kind_); }

  Executor& executor_;
  const plan::Program& program_;
  const model::Parameters& parameters_;
  const ChunkMap& map_;
  optim::StateKind kind_;
};

}  // namespace ebb::engine
