// What the tests on a GPU share. All of them skip themselves where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "device/cuda_support.h"
#include "device/device.h"

namespace ebb {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda_available()) GTEST_SKIP() << "no NVIDIA GPU here";
    device_ = device::create_device("cuda");
  }
  device::Device& gpu() { return *device_; }

 private:
  std::unique_ptr<device::Device> device_;
};

}  // namespace ebb
