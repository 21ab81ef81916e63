#include <limits>

#include "base/machine.h"
#include "device/cpu/cpu_device.h"
#include "device/device_contract.h"
#include "device/stream_times.h"
#include "ebb/error.h"

namespace ebb::device {

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceContract, testing::Values("cpu"));

namespace {

TEST(CpuDevice, TellsWhenWorkRan) {
  const auto device = create_device("cpu");
  expect_times_in_order(*device);
  expect_one_clock(*device);
}

TEST(CpuDevice, SaysHowMuchMemoryCouldNotBeHad) {
  try {
    create_device("cpu")->allocate_device(std::numeric_limits<Bytes>::max() / 2);
    FAIL() << "nobody has that much";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("4611686018427387903 bytes"), std::string::npos)
        << error.what();
  }
}

TEST(CpuDevice, BothTiersTogetherAreWhatIsAvailable) {
  const CpuDevice device(24 * kGiB);
  EXPECT_EQ(device.device_memory() + device.host_memory(), 24 * kGiB);
  EXPECT_GE(device.device_memory(), device.host_memory());
  EXPECT_GT(device.host_memory(), 0);
  const CpuDevice machine;
  EXPECT_LT(machine.device_memory() + machine.host_memory(), usable_memory());
}

TEST(CreateDevice, RefusesKindsItDoesNotKnow) {
  try {
    create_device("abacus");
    FAIL() << "there is no such device";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("--device abacus"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ebb::device
