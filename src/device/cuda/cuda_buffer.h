// A CUDA device's memory of both tiers: one allocation each, of exactly the bytes asked for.
#pragma once

#include "device/cuda/known_memory.h"
#include "device/device.h"

namespace ebb::device {

class CudaBuffer final : public Buffer {
 public:
  // On the current device. `memory` outlives the buffer.
  CudaBuffer(Bytes bytes, KnownMemory& memory);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

 private:
  KnownMemory& memory_;
};

// Pages from the system, pinned for the GPU in pieces. (cudaHostAlloc and the allocators on top of
// it round up; a mapping that is registered does not.)
class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(Bytes bytes, KnownMemory& memory);
  ~PinnedBuffer() override;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

 private:
  void release();

  KnownMemory& memory_;
  Bytes pinned_ = 0;
};

}  // namespace ebb::device
