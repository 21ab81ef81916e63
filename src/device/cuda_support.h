// NVIDIA GPUs, as far as code that includes no CUDA header needs to know. cuda/ defines these, or
// no_cuda/ in a build without: there no GPU is available and the others throw ConfigError.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace ebb::device {

// A driver and at least one GPU are there. Never throws.
bool cuda_available() noexcept;

struct CudaDescription {
  std::string name;
  std::string compute_capability;  // "9.0"
  int multiprocessors = 0;
  Bytes memory = 0;
  Bytes free_memory = 0;
  std::string driver_version;   // the CUDA version the driver knows, "13.0"
  std::string runtime_version;  // the one this build has
  std::string pci_address;      // "0000:3b:00.0"
  std::string pci_link;  // "32.0 GT/s PCIe x16" as it runs now; empty where the system hides it
};

// The first GPU; CUDA_VISIBLE_DEVICES says which one that is. Throws DeviceError where there is
// none.
CudaDescription describe_cuda();
std::unique_ptr<Device> create_cuda_device();

}  // namespace ebb::device
