// The parameters and their optimizer states as one thing, wherever their chunks lie: what loads,
// saves and digests use. Between steps only, with empty lanes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/dtype.h"
#include "engine/chunk_parts.h"
#include "engine/runtime.h"
#include "exec/executor.h"
#include "model/parameters.h"
#include "optim/format.h"
#include "plan/program.h"

namespace ebb::engine {

using optim::Plane;

class ParameterStore {
 public:
  // Keeps references to all of it. Takes kStagingBytes of host memory.
  ParameterStore(Runtime& runtime, exec::Executor& executor, const plan::Program& program,
                 const model::Parameters& parameters, const ChunkMap& map,
                 const optim::StateKind& kind);

  const model::Parameters& parameters() const { return parameters_; }
  const optim::StateKind& kind() const { return kind_; }

  // Elements [first, first + count) of a parameter's plane, as they are stored: whole grains, so
  // `first` is a multiple of the grain's. A weight is written to every place that keeps one, so
  // that no stale copy is left.
  void read(Plane plane, int parameter, std::int64_t first, std::int64_t count, void* to);
  void write(Plane plane, int parameter, std::int64_t first, std::int64_t count, const void* from);

  // The fp32 master: split into weight and low half, or joined from them. Several parameters may
  // be given the same values.
  void write_master(std::span<const int> parameters, std::int64_t first,
                    std::span<const float> values);
  void write_master(int parameter, std::int64_t first, std::span<const float> values) {
    write_master({&parameter, 1}, first, values);
  }
  void read_master(int parameter, std::int64_t first, std::span<float> values);

  // A moment as fp32, whatever its format. `first` is a multiple of kernels::kStateBlock.
  void read_moment(Plane plane, int parameter, std::int64_t first, std::span<float> values);

  // Starts anew: moments of zero everywhere.
  void clear_moments();

  // Of the fp32 masters, and of the moments as fp32, parameter by parameter in checkpoint
  // order: equal bits, equal digest, wherever they lie.
  std::string weights_digest();
  std::string moments_digest();

  // Elements that are handled at a time, here and by callers: bounds their staging memory, and is
  // enough to hide what a copy costs beside its bytes.
  static constexpr std::int64_t kPiece = 256 << 10;
  // A piece as it is stored and two as fp32.
  static constexpr Bytes kStagingBytes = 3 * kPiece * Bytes{sizeof(float)};

  // For pieces that read() fills and write() takes: a GPU copies from and to this memory at the
  // link's speed. Holds a piece of any plane, until the next call of another function.
  std::byte* staging() const { return staging_->data(); }

 private:
  template <class Visit>
  void for_ranges(int parameter, std::int64_t first, std::int64_t count, Visit visit);
  // Where an element of a chunk's plane is kept.
  struct Kept {
    plan::ObjectId object = -1;
    Bytes first = 0;
  };
  Kept find(Plane plane, int chunk, std::int64_t in_chunk) const;
  optim::Grain grain(Plane plane) const { return optim::grain_of(plane, kind_); }
  template <class Read>
  void digest_pieces(Digest& digest, std::int64_t count, Read read);
  float* wide(std::int64_t index) const {
    return reinterpret_cast<float*>(staging()) + (1 + index) * kPiece;
  }
  bf16* high() const { return reinterpret_cast<bf16*>(staging()); }
  std::int16_t* low() const { return reinterpret_cast<std::int16_t*>(high() + kPiece); }

  ThreadPool& pool_;
  exec::Executor& executor_;
  const plan::Program& program_;
  const model::Parameters& parameters_;
  const ChunkMap& map_;
  optim::StateKind kind_;
  std::unique_ptr<device::Buffer> staging_;
};

// Calls visit(first, count) for the pieces of so many elements.
template <class Visit>
void for_pieces(std::int64_t count, Visit visit) {
  for (std::int64_t first = 0; first < count; first += ParameterStore::kPiece) {
    visit(first, std::min(ParameterStore::kPiece, count - first));
  }
}

}  // namespace ebb::engine
