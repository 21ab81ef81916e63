#include "device/cpu/cpu_stream.h"

#include <gtest/gtest.h>

#include <latch>

#include "device/cuda_support.h"
#include "ebb/error.h"

namespace ebb::device {
namespace {

// An event of another device, which fails.
class BrokenEvent final : public Event {
 public:
  std::uint64_t ticket() override { return 1; }
  void wait_for(std::uint64_t) override { throw DeviceError("broken"); }
};

TEST(CpuStream, WaitsForTheRecordItWasTold) {
  CpuStream first("first");
  CpuStream second("second");
  CpuEvent event;
  second.wait(event);  // never recorded: past
  second.synchronize();
  std::latch go(1);
  int value = 0;
  int seen = 0;
  first.submit([&] { value = 1; });
  first.record(event);
  second.wait(event);
  second.submit([&] { seen = value; });
  second.synchronize();
  EXPECT_EQ(seen, 1);
  // The next record is held back; a wait for the one before is not.
  const std::uint64_t before = event.ticket();
  first.submit([&] { go.wait(); });
  first.record(event);
  event.wait_for(before);
  go.count_down();
  event.synchronize();
}

TEST(CpuStream, AFailedWaitTravelsWithTheEventsAndSkipsWork) {
  CpuStream first("first");
  CpuStream second("second");
  BrokenEvent broken;
  CpuEvent event;
  bool ran = false;
  first.wait(broken);
  first.submit([&] { ran = true; });
  first.record(event);
  second.wait(event);
  second.submit([&] { ran = true; });
  EXPECT_THROW(second.synchronize(), DeviceError);
  EXPECT_THROW(first.synchronize(), DeviceError);
  EXPECT_THROW(event.synchronize(), DeviceError);
  EXPECT_FALSE(ran);
}

TEST(CpuStream, BusyTimeLeavesWaitsOut) {
  CpuStream stream("stream");
  CpuEvent event;
  stream.record(event);
  stream.wait(event);
  stream.synchronize();
  EXPECT_EQ(stream.busy_seconds(), 0.0);
  stream.submit([] {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() == start) {
    }
  });
  stream.synchronize();
  EXPECT_GT(stream.busy_seconds(), 0.0);
}

TEST(CpuStream, CopiesNowBehindWhatWasSubmitted) {
  CpuStream stream("stream");
  int from = 1;
  int to = 0;
  stream.submit([&] { from = 2; });
  stream.copy_now(&to, &from, sizeof to);
  EXPECT_EQ(to, 2);
}

// The calling thread has done what it did, and blocks where a stream would wait.
TEST(CallingThread, IsAStreamWithoutAQueue) {
  CallingThread caller;
  CpuStream stream("stream");
  CpuEvent past;
  CpuEvent done;
  std::latch go(1);
  bool ran = false;
  caller.record(past);
  stream.wait(past);
  stream.submit([&] {
    go.wait();
    ran = true;
  });
  stream.record(done);
  go.count_down();
  caller.wait(done);
  EXPECT_TRUE(ran);
}

TEST(Devices, WhatIsNotThereIsRefused) {
  EXPECT_THROW(create_device("tpu"), ConfigError);
  if (!cuda_available()) {
    EXPECT_THROW(create_device("cuda"), Error);
    EXPECT_THROW(describe_cuda(), Error);
  }
}

}  // namespace
}  // namespace ebb::device
