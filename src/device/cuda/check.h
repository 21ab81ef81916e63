// Return codes of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace ebb::device {

// Throws DeviceError that names the call ("cudaMemcpyAsync of 4096 bytes") and what CUDA says. Also
// takes the error out of the thread's memory of the last one, so that the next launch is not
// blamed.
void check(cudaError_t status, std::string_view call);

}  // namespace ebb::device
