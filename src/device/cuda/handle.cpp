#include "device/cuda/handle.h"

#include "device/cuda/check.h"

namespace ebb::device {

StreamHandle make_stream(bool urgent) {
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
        "cudaStreamCreateWithPriority");
  return StreamHandle(stream);
}

EventHandle make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return EventHandle(event);
}

}  // namespace ebb::device
