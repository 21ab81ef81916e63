// A CUDA device's memory of both tiers: one allocation each, of exactly the bytes asked for.
#pragma once

#include "device/cuda/registered_memory.h"
#include "device/device.h"

namespace ebb::device {

class CudaBuffer final : public Buffer {
 public:
  // On the current device. `memory` outlives the buffer.
  CudaBuffer(Bytes bytes, RegisteredMemory& memory);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

 private:
  RegisteredMemory& memory_;
};

// Device memory that somebody else allocated.
class BorrowedCudaBuffer final : public Buffer {
 public:
  // Throws ConfigError where its first or last byte is not memory of GPU `device`.
  BorrowedCudaBuffer(void* data, Bytes bytes, int device, RegisteredMemory& memory);
  ~BorrowedCudaBuffer() override { memory_.remove(data_); }
  BorrowedCudaBuffer(const BorrowedCudaBuffer&) = delete;
  BorrowedCudaBuffer& operator=(const BorrowedCudaBuffer&) = delete;

 private:
  RegisteredMemory& memory_;
};

// Pages from the system, pinned for the GPU in pieces. (cudaHostAlloc and the allocators on top of
// it round up; a mapping that is registered does not.)
class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(Bytes bytes, RegisteredMemory& memory);
  ~PinnedBuffer() override;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

 private:
  void release();

  RegisteredMemory& memory_;
  Bytes pinned_ = 0;
};

}  // namespace ebb::device
