// Lanes without a program: the first failure skips what is of its time and later, and is thrown.
#include "exec/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace ebb::exec {
namespace {

struct Two {
  std::unique_ptr<device::Device> device = device::create_device("cpu");
  Lanes lanes{*device, {{device::StreamKind::compute, "a"}, {device::StreamKind::host, "b"}}};
};

TEST(Lanes, RunTheirWorkInOrder) {
  Two two;
  std::string order;
  for (const char c : {'x', 'y', 'z'}) two.lanes.submit(two.lanes[0], 0, [&, c] { order += c; });
  two.lanes.drain(0);
  two.lanes.check();
  EXPECT_EQ(order, "xyz");
}

TEST(Lanes, AFailureSkipsItsTimeAndLaterOnesOnAllLanes) {
  Two two;
  std::atomic<int> ran = 0;
  const auto failed = two.device->create_event(device::StreamKind::compute);
  two.lanes.submit(two.lanes[0], 1, [] { throw std::runtime_error("of time 1"); });
  two.lanes[0].record(*failed);
  two.lanes.submit(two.lanes[0], 1, [&] { ran += 1; });
  two.lanes[1].wait(*failed);
  two.lanes.submit(two.lanes[1], 2, [&] { ran += 10; });
  two.lanes.submit(two.lanes[1], 0, [&] { ran += 100; });  // began before the failure
  EXPECT_THROW(two.lanes.drain(2), std::runtime_error);
  EXPECT_EQ(ran, 100);
  EXPECT_TRUE(two.lanes.failed(1));
  EXPECT_FALSE(two.lanes.failed(0));
  two.lanes.fail(std::make_exception_ptr(std::logic_error("a later one")), 0);
  EXPECT_THROW(two.lanes.check(), std::runtime_error) << "the first failure is the one to tell";
}

TEST(Lanes, ClearNow) {
  Two two;
  std::vector<std::byte> bytes(1000, std::byte{7});
  Lanes::clear_now(two.lanes[0], bytes.data() + 1, 998);
  EXPECT_EQ(bytes.front(), std::byte{7});
  EXPECT_EQ(bytes.back(), std::byte{7});
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), 998);
}

}  // namespace
}  // namespace ebb::exec
