// A tier that nobody knows: no addresses, behind lanes of its own, in grains of 4 KiB, with
// transfers shorter than a chunk, and memory that is protected but for the time of a transfer.
// States live there, and nothing that runs, lays out, simulates or shows programs knows of it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/small_runs.h"
#include "plan/explain.h"
#include "plan/trace_check.h"

namespace ebb::engine {
namespace {

using plan::Tier;

constexpr Tier kVault{2};
constexpr Bytes kGrain = 4096;
constexpr Bytes kMost = 2 * kGrain;  // of one transfer

class Vault final : public memory::Space {
 public:
  explicit Vault(Bytes bytes) : Space("vault"), bytes_(bytes) {
    data_ = static_cast<std::byte*>(
        mmap(nullptr, length(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~Vault() override { munmap(data_, length()); }

  Bytes size() const override { return bytes_; }
  void read(Bytes offset, void* memory, Bytes bytes) override {
    open(offset, memory, bytes,
         [&] { std::memcpy(memory, data_ + offset, static_cast<std::size_t>(bytes)); });
  }
  void write(Bytes offset, const void* memory, Bytes bytes) override {
    open(offset, memory, bytes,
         [&] { std::memcpy(data_ + offset, memory, static_cast<std::size_t>(bytes)); });
  }

 private:
  std::size_t length() const { return static_cast<std::size_t>(std::max(bytes_, kGrain)); }

  template <class Copy>
  void open(Bytes offset, const void* memory, Bytes bytes, Copy copy) {
    require_within(offset, bytes);
    if (offset % kGrain != 0 || bytes % kGrain != 0 ||
        reinterpret_cast<std::uintptr_t>(memory) % kGrain != 0) {
      throw Error(fmt::format("{} bytes at {}: not whole grains", bytes, offset));
    }
    std::lock_guard lock(mutex_);  // two lanes lead here, and protection is of whole pages
    mprotect(data_ + offset, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE);
    copy();
    mprotect(data_ + offset, static_cast<std::size_t>(bytes), PROT_NONE);
  }

  Bytes bytes_;
  std::byte* data_ = nullptr;
  std::mutex mutex_;
};

TrainingSettings with_vault(TrainingSettings s) {
  plan::Topology topology = *plan::device_and_host();
  topology.add(plan::TierInfo{
      .name = "vault", .alignment = kGrain, .addressable = false, .largest_transfer = kMost});
  topology.add(
      plan::LaneInfo{.name = "fetch", .from = kVault, .to = Tier::host, .bytes_per_second = 1e9});
  topology.add(
      plan::LaneInfo{.name = "store", .from = Tier::host, .to = kVault, .bytes_per_second = 1e9});
  s.topology = std::make_shared<const plan::Topology>(std::move(topology));
  s.make_space = [](Tier, Bytes bytes) { return std::make_unique<Vault>(bytes); };
  s.limits[kVault] = kGiB;
  s.fixed.state_home = kVault;
  s.fixed.site = plan::Site::stream;
  s.fixed.chunk_parameters = 8192;  // 80 KiB of state, ten transfers
  return s;
}

class UnknownTier : public testing::TestWithParam<std::tuple<int, double>> {};

TEST_P(UnknownTier, TrainingIsTheSameToTheBit) {
  const auto [accumulate, by_cpu] = GetParam();
  TrainingSettings plain = small_settings();
  plain.accumulate = accumulate;
  const Outcome expected = train_small(plain, 2, 6);
  TrainingSettings s = with_vault(plain);
  s.fixed.offload_fraction = 0.9;
  s.fixed.host_fraction = by_cpu;
  for (const std::uint64_t seed : {0, 3}) {
    s.disturbance = {.slow_lanes_seed = seed, .poison = seed > 0, .threads = seed > 0};
    const std::string where = fmt::format("seed {}", seed);
    const Outcome found = train_small(s, 2, 6);
    EXPECT_EQ(found.weights, expected.weights) << where;
    EXPECT_EQ(found.moments, expected.moments) << where;
    EXPECT_EQ(found.predicted_device, found.measured_device) << where;
    EXPECT_EQ(found.predicted_host, found.measured_host) << where;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, UnknownTier,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(0.0, 0.4, 0.9)),
                         [](const auto& info) {
                           return fmt::format("accumulate{}cpu{:.0f}", std::get<0>(info.param),
                                              100 * std::get<1>(info.param));
                         });

TEST(UnknownTierLimits, HoldAndAreTold) {
  TrainingSettings s = with_vault(small_settings());
  Runtime runtime(test_device(), 2);
  const plan::Plan plan = plan_training(runtime, s);
  s.limits[kVault] = plan.peak(kVault);
  // Staging takes little of the host: two pieces each way.
  EXPECT_LT(plan.layout.size_of(Tier::host), 16 * kMost);
  EXPECT_NE(explain(plan).find("vault"), std::string::npos) << explain(plan);
  TrainingRun run(runtime, s);
  initialize(run);
  for (int step = 0; step < 3; ++step) run.step(made_up_batches(s, step));
  run.finish();
  EXPECT_EQ(run.measured_peak(kVault), plan.peak(kVault));
  EXPECT_GT(run.executor().moved(kVault, Tier::host), 3 * 9 * plan.workload.parameters());
  s.limits[kVault] -= 1;
  try {
    plan_training(runtime, s);
    ADD_FAILURE() << "one byte too few was enough";
  } catch (const OutOfBudget& error) {
    EXPECT_NE(std::string(error.what()).find("Missing on the vault"), std::string::npos)
        << error.what();
  }
}

TEST(UnknownTierTrace, ShowsItsLanesAndBytes) {
  TrainingSettings s = with_vault(small_settings());
  s.trace_steps = 2;
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, s);
  initialize(run);
  for (int step = 0; step < 4; ++step) run.step(made_up_batches(s, step));
  const plan::Trace trace = run.trace();
  const plan::TraceCheck check(plan::text_of(trace), run.plan(), 1e-3);
  check.expect_all();
  plan::TraceCheck(plan::text_of(plan::predicted_trace(run.plan())), run.plan(), 0).expect_all();
}

}  // namespace
}  // namespace ebb::engine
