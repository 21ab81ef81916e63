// Parameters with weights, optimizer state and gradients in memory as the host tier has it, for
// benchmarks: the state's planes lie as a chunk's do, with the weights before them and the
// gradients behind.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/update.h"
#include "measure/bench/streaming.h"
#include "states/format.h"

namespace ebb::measure {

class StateMemory {
 public:
  // What all planes take. Weights and gradients are bf16.
  static Bytes bytes(const states::StateKind& kind, std::int64_t count);

  // Throws DeviceError that says how much was wanted. `device` outlives it.
  StateMemory(device::Device& device, const states::StateKind& kind, std::int64_t count);

  // On memory that is there, of bytes(kind, count).
  StateMemory(std::unique_ptr<device::Buffer> buffer, const states::StateKind& kind,
              std::int64_t count);

  // Random weights and gradients of sizes that training has, and the state of a start. The pool's
  // threads touch the pages first.
  void fill(ThreadPool& pool);

  const device::Buffer& buffer() const { return *buffer_; }
  kernels::StateSpan span() const;
  // Every plane that an update of the span moves.
  std::vector<StreamedPlane> planes() const;

 private:
  states::StateKind kind_;
  std::int64_t count_;
  std::unique_ptr<device::Buffer> buffer_;
};

}  // namespace ebb::measure
