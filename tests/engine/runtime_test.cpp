#include "engine/runtime.h"

#include <gtest/gtest.h>

#include "engine/small_runs.h"

namespace ebb::engine {
namespace {

TEST(LimitsWithin, WhatIsSetIsTakenAndTheRestIsTheMachines) {
  const MachineMemory gpu{.device = 80 * kGiB, .host = 200 * kGiB};
  const plan::Limits none = limits_within(gpu, {}, {});
  EXPECT_EQ(none[plan::Tier::device], 80 * kGiB);
  EXPECT_EQ(none[plan::Tier::host], 200 * kGiB);
  const plan::Limits one = limits_within(gpu, 10 * kGiB, {});
  EXPECT_EQ(one[plan::Tier::device], 10 * kGiB);
  EXPECT_EQ(one[plan::Tier::host], 200 * kGiB);
}

TEST(LimitsWithin, OfOneMemoryTheOtherTierHasTheRest) {
  const MachineMemory cpu{.device = 12 * kGiB, .host = 4 * kGiB, .shared = true};
  EXPECT_EQ(limits_within(cpu, {}, {})[plan::Tier::device], 12 * kGiB);
  EXPECT_EQ(limits_within(cpu, {}, {})[plan::Tier::host], 4 * kGiB);
  EXPECT_EQ(limits_within(cpu, kGiB, {})[plan::Tier::host], 15 * kGiB);
  EXPECT_EQ(limits_within(cpu, 15 * kGiB, {})[plan::Tier::host], kGiB);
  EXPECT_EQ(limits_within(cpu, {}, 10 * kGiB)[plan::Tier::device], 6 * kGiB);
  EXPECT_EQ(limits_within(cpu, 40 * kGiB, {})[plan::Tier::host], 4 * kGiB);
  const plan::Limits both = limits_within(cpu, 9 * kGiB, 10 * kGiB);
  EXPECT_EQ(both[plan::Tier::device], 9 * kGiB);
  EXPECT_EQ(both[plan::Tier::host], 10 * kGiB);
}

TEST(Runtime, OfTheCpuDeviceSharesOneMemory) {
  const Runtime runtime("cpu", 1);
  EXPECT_TRUE(runtime.memory().shared);
  EXPECT_EQ(runtime.memory().device, runtime.profile().device_memory);
}

// A step makes no plan and compiles no kernel: all of it was made, and counted, before the first.
TEST(Runtime, LibrariesAreFrozenBeforeTheFirstStep) {
  for (const DType type : {DType::bf16, DType::f32}) {
    TrainingSettings settings = small_settings();
    settings.dtype = settings.gradient_type = type;
    settings.accumulate = 2;
    Runtime runtime(test_device(), 2);
    TrainingRun run(runtime, settings);
    initialize(run);
    EXPECT_GT(runtime.device_model().entries(), 0);
    for (int step = 0; step < 3; ++step) run.step(made_up_batches(settings, step));
    run.finish();
    EXPECT_EQ(runtime.device_model().entries_since_freeze(), 0) << name_of(type);
  }
}

// c = a b of n by n ones, one behind the other, by a library on a stream.
class ProductOfOnes {
 public:
  static constexpr std::int64_t n = 64;

  ProductOfOnes(kernels::ModelLibrary& library, device::Stream& stream,
                std::unique_ptr<device::Buffer> memory)
      : library_(library), stream_(stream), memory_(std::move(memory)) {
    const std::vector<float> ones(3 * n * n, 1.0f);
    stream_.copy_now(memory_->data(), ones.data(), 3 * n * n * 4);
  }
  static Bytes bytes(kernels::ModelLibrary& library) {
    return 3 * n * n * 4 + library.matmul_scratch(at(0), at(1), at(2), {});
  }
  void queue() {
    stream_.submit([this] {
      const auto all = std::span(memory_->data(), static_cast<std::size_t>(memory_->bytes()));
      auto ops = library_.ops({.stream = &stream_, .scratch = all.subspan(3 * n * n * 4)});
      const auto matrix = [&](int i) { return at(i, memory_->data()); };
      for (int i = 0; i < 20; ++i) ops->matmul(matrix(0), matrix(1), matrix(2));
    });
  }
  std::vector<float> result() {
    std::vector<float> c(n * n);
    stream_.copy_now(c.data(), memory_->data(), n * n * 4);
    return c;
  }

 private:
  static kernels::View at(int matrix, std::byte* memory = nullptr) {
    return {memory + matrix * n * n * 4, DType::f32, n, n, n};
  }

  kernels::ModelLibrary& library_;
  device::Stream& stream_;
  std::unique_ptr<device::Buffer> memory_;
};

TEST(Runtime, ModelOpsOfDeviceAndCpuComputeAtTheSameTime) {
  Runtime runtime(test_device(), 2);
  kernels::ModelLibrary &device_model = runtime.device_model(), &cpu_model = runtime.cpu_model();
  EXPECT_NE(&device_model, &cpu_model);
  EXPECT_EQ(&cpu_model, &runtime.cpu_model());
  device::Device& device = runtime.device();
  const auto compute = device.create_stream(device::StreamKind::compute, "compute");
  const auto host = device.create_stream(device::StreamKind::host, "host");
  ProductOfOnes there(device_model, *compute,
                      device.allocate_device(ProductOfOnes::bytes(device_model)));
  ProductOfOnes here(cpu_model, *host, device.allocate_host(ProductOfOnes::bytes(cpu_model)));
  there.queue();
  here.queue();
  const std::vector<float> expected(ProductOfOnes::n * ProductOfOnes::n, ProductOfOnes::n);
  EXPECT_EQ(there.result(), expected);
  EXPECT_EQ(here.result(), expected);
}

}  // namespace
}  // namespace ebb::engine
