// Owners of what the CUDA runtime hands out.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace ebb::device {

// Move-only. What destroying says is not looked at: it is what an earlier call that failed says.
template <class T, auto Destroy>
class CudaHandle {
 public:
  CudaHandle() = default;
  explicit CudaHandle(T handle) : handle_(handle) {}
  ~CudaHandle() {
    if (handle_ != T{}) static_cast<void>(Destroy(handle_));
  }
  CudaHandle(CudaHandle&& other) noexcept : handle_(std::exchange(other.handle_, T{})) {}
  CudaHandle& operator=(CudaHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  T get() const { return handle_; }

 private:
  T handle_{};
};

using StreamHandle = CudaHandle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = CudaHandle<cudaEvent_t, cudaEventDestroy>;

// Does not wait for the default stream. Kernels of an urgent one start before those of others.
StreamHandle make_stream(bool urgent = false);
// `flags` is cudaEventDefault (with timing) or cudaEventDisableTiming.
EventHandle make_event(unsigned flags);

}  // namespace ebb::device
