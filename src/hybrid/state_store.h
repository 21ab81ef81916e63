// The parameters and their states as one thing, wherever their chunks lie: what saves, loads and
// digests use. Between steps, with empty lanes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "hybrid/chunks.h"
#include "hybrid/memory.h"
#include "hybrid/planes.h"

namespace ebb::hybrid {

class StateStore {
 public:
  // Keeps references to all of it. Copies are made on the stream.
  StateStore(const std::vector<Parameter>& parameters, const std::vector<Chunk>& chunks,
             const Memory& memory, device::Stream& stream);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  optim::StateKind kind_of(int parameter) const;
  std::span<std::byte> staging() const { return memory_.staging(); }
  // Indices of the chunks that hold the parameter, in its order.
  const std::vector<int>& chunks_of(int parameter) const {
    return chunks_of_[static_cast<std::size_t>(parameter)];
  }

  // Elements [first, first + count) of a parameter's plane as they are stored. `first` is a
  // multiple of the int8 format's block. Weights are read from the caller's memory, and written to
  // every place that keeps one.
  void read(Plane plane, int parameter, std::int64_t first, std::int64_t count, void* to);
  void write(Plane plane, int parameter, std::int64_t first, std::int64_t count, const void* from);

  // The caller's weights are the masters: low halves are zero, and the CPU's copies are theirs.
  void take_weights();

  void read_master(int parameter, std::span<float> to);
  // Parameter by parameter; equal bits, equal digest.
  std::string weights_digest();
  std::string moments_digest();

 private:
  template <class Visit>
  void for_ranges(int parameter, std::int64_t first, std::int64_t count, Visit visit);
  std::byte* address(Plane plane, int chunk, std::int64_t in_chunk) const;
  void read_master(int parameter, std::int64_t first, std::span<float> to);

  const std::vector<Parameter>& parameters_;
  const std::vector<Chunk>& chunks_;
  const Memory& memory_;
  device::Stream& stream_;
  std::vector<std::vector<int>> chunks_of_;
};

}  // namespace ebb::hybrid
