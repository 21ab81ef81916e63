// The parameters and their states as one thing, wherever their chunks lie: what loads, saves,
// conversions and digests use. Between steps only, with empty lanes, by one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "states/chunk_map.h"

namespace ebb::states {

// Where chunks are. All calls are done on return; they may come from a thread of the pool's.
class ChunkMemory {
 public:
  virtual ~ChunkMemory() = default;
  // The elements of a chunk's part, or of a run of it, as a plane stores them: whole grains. A
  // weight is written to every place that keeps one, so that no stale copy is left.
  virtual void read(Plane plane, int chunk, const Part& part, void* to) = 0;
  virtual void write(Plane plane, int chunk, const Part& part, const void* from) = 0;
  // All of a chunk's plane of the state becomes zero.
  virtual void clear(Plane plane, int chunk) = 0;
};

class Store {
 public:
  static constexpr std::int64_t kPiece = states::kPiece;  // handled at a time, here and by callers
  // A piece as it is stored and two as fp32.
  static constexpr Bytes kStagingBytes = 3 * kPiece * Bytes{sizeof(float)};

  // Keeps references to all of it. `staging` has kStagingBytes of host memory.
  Store(const ChunkMap& map, ChunkMemory& memory, ThreadPool& pool, std::byte* staging)
      : map_(map), memory_(memory), pool_(pool), staging_(staging) {}

  const StateKind& kind_of(int parameter) const { return tensor(parameter).kind; }
  // For pieces that read() fills and write() takes: a GPU copies from and to this memory at the
  // link's speed. Holds a piece of any plane, until the next call of another function.
  std::byte* staging() const { return staging_; }

  // Elements [first, first + count) of a parameter's plane, as they are stored: whole grains, so
  // `first` is a multiple of the grain's.
  void read(Plane plane, int parameter, std::int64_t first, std::int64_t count, void* to);
  void write(Plane plane, int parameter, std::int64_t first, std::int64_t count, const void* from);
  // All of a plane as it is stored, in pieces and in order.
  void read_plane(Plane plane, int parameter, FunctionRef<void(std::span<const std::byte>)> take);

  // Gives elements of a parameter's plane as the stored format has it.
  using PlaneReader = FunctionRef<void(Plane plane, int parameter, std::int64_t first,
                                       std::int64_t count, void* to)>;
  // Weights and states of all parameters. Moments that are `stored` in another format than the
  // store's are converted once, to its nearest; all else is copied, which loses nothing.
  void load(StateFormat stored, PlaneReader reader);

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

  // Both moments of a whole parameter, rounded to the nearest of its format; `second` is empty
  // where it has one.
  void write_moments(int parameter, std::span<const float> first, std::span<const float> second);

  // Planes of zeros everywhere: with those of the moments, a start; with the low halves, the
  // weights are the masters.
  void clear(std::span<const Plane> planes);
  void clear_moments();

  // Digests of the fp32 masters, and of the moments as fp32 or as they are stored, parameter by
  // parameter: equal bits, equal digest, wherever they lie.
  std::string weights_digest();
  std::string moments_digest();
  std::string stored_moments_digest();

 private:
  const Tensor& tensor(int parameter) const { return map_.tensors[parameter]; }
  int parameters() const { return static_cast<int>(map_.tensors.size()); }
  template <class Visit>
  void for_parts(int parameter, std::int64_t first, std::int64_t count, Visit visit);
  void convert(StateFormat stored, int parameter, std::int64_t first, std::int64_t count,
               PlaneReader reader);
  template <class Read>
  void digest_pieces(Digest& digest, std::int64_t count, Read read);

  const ChunkMap& map_;
  ChunkMemory& memory_;
  ThreadPool& pool_;
  std::byte* staging_;
};

// Calls visit(first, count) for the pieces of so many elements.
template <class Visit>
void for_pieces(std::int64_t count, Visit visit, std::int64_t piece = kPiece) {
  for (std::int64_t first = 0; first < count; first += piece) {
    visit(first, std::min(piece, count - first));
  }
}

}  // namespace ebb::states
