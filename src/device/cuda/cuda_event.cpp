#include "device/cuda/cuda_event.h"

#include <cudaTypedefs.h>

#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "device/cuda/check.h"
#include "ebb/error.h"

namespace ebb::device {
namespace {

// The driver's own function, asked for at run time: a program that links libcuda does not start on
// a machine without a driver.
PFN_cuStreamWaitValue32_v11070 find_wait_value() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 11070, cudaEnableDefault,
                                         &result),
        "cudaGetDriverEntryPointByVersion(cuStreamWaitValue32)");
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    throw DeviceError(fmt::format(
        "the driver has no cuStreamWaitValue32 of CUDA 11.7 (query result {}): update the driver",
        static_cast<int>(result)));
  }
  return reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(found);
}

}  // namespace

// Without cudaEventBlockingSync a thread that waits spins: the norm is on the step's critical path
// and the host lane has nothing else to do while it waits.
CudaEvent::CudaEvent()
    : events_{make_event(cudaEventDisableTiming), make_event(cudaEventDisableTiming)} {}

void CudaEvent::wait_for(std::uint64_t ticket) {
  if (ticket == 0) return;
  check(cudaEventSynchronize(of(ticket)), "cudaEventSynchronize");
}

void CudaEvent::record(cudaStream_t stream) {
  check(cudaEventRecord(of(recorded_ + 1), stream), "cudaEventRecord");
  ++recorded_;
}

void CudaEvent::make_wait(cudaStream_t stream) {
  if (recorded_ == 0) return;
  check(cudaStreamWaitEvent(stream, of(recorded_), cudaEventWaitDefault), "cudaStreamWaitEvent");
}

FlagPage::FlagPage() {
  void* host = nullptr;
  check(cudaHostAlloc(&host, kFlags * sizeof(std::uint32_t),
                      cudaHostAllocPortable | cudaHostAllocMapped),
        fmt::format("cudaHostAlloc of {} bytes", kFlags * sizeof(std::uint32_t)));
  host_ = static_cast<std::uint32_t*>(host);
  std::memset(host, 0, kFlags * sizeof(std::uint32_t));
  void* device = nullptr;
  const cudaError_t status = cudaHostGetDevicePointer(&device, host, 0);
  if (status != cudaSuccess) static_cast<void>(cudaFreeHost(host));
  check(status, "cudaHostGetDevicePointer");
  device_ = static_cast<std::uint32_t*>(device);
}

FlagPage::~FlagPage() { static_cast<void>(cudaFreeHost(host_)); }

HostFlags::Flag HostFlags::next() {
  if (!page_ || used_ == FlagPage::kFlags) {
    page_ = std::make_shared<FlagPage>();
    used_ = 0;
  }
  return {page_, used_++};
}

void CudaHostEvent::reach(std::uint64_t number, const std::exception_ptr& failure) {
  // Sequentially consistent: a locked instruction also orders the streaming stores of the work
  // before, which an ordinary store does not.
  std::atomic_ref<std::uint32_t> flag(*flag_.page->host(flag_.index));
  flag.store(static_cast<std::uint32_t>(number), std::memory_order_seq_cst);
  CpuEvent::reach(number, failure);
}

void CudaHostEvent::make_wait(cudaStream_t stream) {
  static const PFN_cuStreamWaitValue32_v11070 wait_value = find_wait_value();
  const std::uint64_t number = ticket();
  if (number == 0) return;
  const auto address = reinterpret_cast<CUdeviceptr>(flag_.page->device(flag_.index));
  const CUresult status =
      wait_value(stream, address, static_cast<cuuint32_t>(number), CU_STREAM_WAIT_VALUE_GEQ);
  if (status != CUDA_SUCCESS) {
    throw DeviceError(
        fmt::format("cuStreamWaitValue32: CUDA driver error {}", static_cast<int>(status)));
  }
}

}  // namespace ebb::device
