// A disk as a tier: states, weights, sums and inputs there change no bit, the limit of every tier
// holds, and a drive that fails is told with what to do.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/small_runs.h"
#include "io/temp_folder.h"
#include "plan/explain.h"
#include "scale.h"

namespace ebb::engine {
namespace {

using plan::Tier;

const std::filesystem::path& folder() {
  static const io::TempFolder made;
  return made.path();
}

struct OnDisk {
  std::string name;
  plan::Site site = plan::Site::stream;
  double away = 1, by_cpu = 0, states = 0;         // shares of the parameters
  std::int64_t weights = 0, sums = 0, inputs = 0;  // blocks that leave the device
  std::int64_t disk_weights = 0, disk_sums = 0, disk_inputs = 0;
};

std::vector<OnDisk> placements() {
  using enum plan::Site;
  return {
      {.name = "states, streamed", .states = 1},
      {.name = "states, by the CPU", .site = host, .states = 1},
      {.name = "some states, mixed", .away = 0.9, .by_cpu = 0.4, .states = 0.5},
      {.name = "weights", .weights = 5, .disk_weights = 5},
      {.name = "weights, by the CPU", .site = host, .weights = 5, .disk_weights = 3},
      {.name = "sums", .sums = 5, .disk_sums = 5},
      {.name = "sums, by the CPU", .site = host, .sums = 5, .disk_sums = 5},
      {.name = "inputs", .inputs = 3, .disk_inputs = 3},
      {.name = "everything",
       .by_cpu = 0.5,
       .states = 1,
       .weights = 5,
       .sums = 5,
       .inputs = 3,
       .disk_weights = 5,
       .disk_sums = 5,
       .disk_inputs = 3},
      {.name = "everything, by the CPU",
       .site = host,
       .states = 1,
       .weights = 5,
       .sums = 5,
       .inputs = 3,
       .disk_weights = 5,
       .disk_sums = 5,
       .disk_inputs = 3},
      {.name = "some of everything",
       .away = 0.8,
       .by_cpu = 0.3,
       .states = 0.4,
       .weights = 4,
       .sums = 3,
       .inputs = 2,
       .disk_weights = 2,
       .disk_sums = 2,
       .disk_inputs = 1},
  };
}

TrainingSettings with_disk(TrainingSettings s, const OnDisk& on, io::QueueOptions queue = {}) {
  s.limits[Tier::host] = 512 * kMiB;
  add_disk(s, {{folder(), kGiB}}, {}, std::move(queue));
  s.fixed.site = on.site;
  s.fixed.offload_fraction = on.away;
  if (on.site != plan::Site::host) s.fixed.host_fraction = on.by_cpu;
  s.fixed.disk_fraction = on.states;
  s.fixed.streamed_weights = on.weights;
  s.fixed.host_sums = on.sums;
  s.fixed.host_inputs = on.inputs;
  s.fixed.recompute_blocks = on.inputs;
  s.fixed.disk_weights = on.disk_weights;
  s.fixed.disk_sums = on.disk_sums;
  s.fixed.disk_inputs = on.disk_inputs;
  return s;
}

struct Case {
  int accumulate;
  DType dtype;
  bool tied;
};
void PrintTo(const Case& of, std::ostream* out) {
  *out << of.accumulate << " micro-batches, " << name_of(of.dtype) << (of.tied ? ", tied" : "");
}

class DiskPlacement : public testing::TestWithParam<Case> {};

TEST_P(DiskPlacement, GivesTheSameBits) {
  const int steps = small_scale() ? 3 : 5;
  TrainingSettings plain = small_settings();
  plain.accumulate = GetParam().accumulate;
  plain.dtype = plain.gradient_type = GetParam().dtype;
  plain.config.tied = GetParam().tied;
  const Outcome expected = train_small(plain, 2, steps);
  std::uint64_t seed = 0;
  for (const OnDisk& on : placements()) {
    // Once as it comes; once with lanes that are late, memory that is poisoned, hardly more
    // memory than a plan takes, and reads by threads, which the thread sanitizer can see.
    for (const bool disturbed : {false, true}) {
      if (small_scale() && !disturbed) continue;
      io::QueueOptions queue;
      queue.uring = !disturbed;
      TrainingSettings s = with_disk(plain, on, queue);
      Runtime runtime(test_device(), 2);
      plan::Plan plan = plan_training(runtime, s);
      if (disturbed) {
        for (const Tier tier : {Tier::device, Tier::host}) {
          s.limits[tier] = plan.peak(tier) + plan.peak(tier) / 16;
        }
        plan = plan_training(runtime, s);
        ++seed;
        s.disturbance = {.slow_lanes_seed = seed, .poison = true, .threads = seed % 2 == 0};
      }
      const std::string where = fmt::format("{}, {}", on.name, disturbed ? "disturbed" : "plain");
      TrainingRun run(runtime, s, plan);
      initialize(run);
      Outcome found;
      for (int step = 0; step < steps; ++step) {
        found.losses.push_back(run.step(made_up_batches(s, step)).loss);
      }
      run.finish();
      EXPECT_EQ(run.store().weights_digest(), expected.weights) << where;
      EXPECT_EQ(run.store().moments_digest(), expected.moments) << where;
      EXPECT_EQ(found.losses, expected.losses) << where;
      for (const Tier tier : s.topology->all_tiers()) {
        EXPECT_EQ(run.measured_peak(tier), run.plan().peak(tier)) << where << ", " << tier.index;
      }
      // An offload test that passes with nothing offloaded is no test.
      EXPECT_GT(run.plan().layout.size_of(kDisk), 0) << where;
      EXPECT_EQ(run.executor().moved(kDisk, Tier::host),
                steps * planned_bytes(run.plan(), kDisk, Tier::host))
          << where;
      EXPECT_EQ(run.executor().moved(Tier::host, kDisk),
                steps * planned_bytes(run.plan(), Tier::host, kDisk))
          << where;
      EXPECT_GT(run.executor().moved(Tier::host, kDisk) + on.disk_weights, 0) << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, DiskPlacement,
                         testing::Values(Case{1, DType::bf16, true}, Case{2, DType::bf16, false},
                                         Case{3, DType::bf16, true}, Case{4, DType::bf16, true},
                                         Case{7, DType::bf16, false}, Case{3, DType::f32, true}),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", info.param.accumulate,
                                              name_of(info.param.dtype),
                                              info.param.tied ? "tied" : "untied");
                         });

// With no flag but the limits: what host memory cannot hold goes to the disk, no more than that,
// and the flags of the plan make the same plan.
TEST(DiskPlan, TakesWhatHostMemoryCannotHold) {
  TrainingSettings plain = small_settings();
  plain.accumulate = 3;
  plain.fixed = {};
  plain.limits[Tier::host] = 512 * kMiB;
  Runtime runtime(test_device(), 2);
  const Outcome expected = train_small(plain, 2, 3);
  TrainingSettings roomy = plain;
  // What libraries take is the same under every limit: little on the cpu device, megabytes on CUDA.
  const plan::Workload work = plan_training(runtime, plain).workload;
  roomy.limits[Tier::device] = work.extra(Tier::device) + work.scratch + 416 * kKiB;
  const plan::Plan in_memory = plan_training(runtime, roomy);
  const Bytes needs = in_memory.peak(Tier::host);
  bool some = false;
  // A disk itself takes a megabyte of the host's memory and its staging.
  for (const Bytes more : {Bytes{6000}, Bytes{1000}, Bytes{800}}) {
    TrainingSettings s = roomy;
    s.limits[Tier::host] = needs + more * kKiB;
    add_disk(s, {{folder(), kGiB}});
    const plan::Plan plan = plan_training(runtime, s);
    some = some || plan.layout.size_of(kDisk) > 0;
    TrainingRun run(runtime, s, plan);
    initialize(run);
    for (int step = 0; step < 3; ++step) run.step(made_up_batches(s, step));
    run.finish();
    EXPECT_EQ(run.store().weights_digest(), expected.weights) << plan::flags_of(plan.choices);
    EXPECT_LE(run.measured_peak(Tier::host), s.limits[Tier::host]);
  }
  EXPECT_TRUE(some);
}

TEST(DiskPlan, RefusesMoreThanTheDiskHas) {
  TrainingSettings s = with_disk(small_settings(), placements().front());
  Runtime runtime(test_device(), 2);
  s.limits[kDisk] = plan_training(runtime, s).peak(kDisk);
  EXPECT_NO_THROW(plan_training(runtime, s));
  s.limits[kDisk] -= 1;
  try {
    plan_training(runtime, s);
    ADD_FAILURE() << "one byte too few was enough";
  } catch (const OutOfBudget& error) {
    EXPECT_NE(std::string(error.what()).find("Missing on the disk"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--disk PATH:"), std::string::npos) << error.what();
  }
}

// Evaluation brings weights from the disk, too.
TEST(DiskEvaluation, IsTheSame) {
  TrainingSettings plain = small_settings();
  const TrainingSettings on_disk = with_disk(plain, placements()[8]);
  const auto loss = [](const TrainingSettings& s) {
    Runtime runtime(test_device(), 2);
    TrainingRun run(runtime, s);
    initialize(run);
    run.step(made_up_batches(s, 0));
    const double first = run.evaluate(made_up_batches(s, 5).front()).loss_sum;
    run.step(made_up_batches(s, 1));
    return std::pair(first, run.evaluate(made_up_batches(s, 5).front()).loss_sum);
  };
  EXPECT_EQ(loss(on_disk), loss(plain));
}

// Which completion of which direction a fault befalls, once training has begun.
struct Fault {
  std::string name;
  io::Direction direction;
  std::function<std::optional<std::int64_t>(const io::DirectRequest&, std::int64_t)> change;
  std::string says;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class DiskFaults : public testing::TestWithParam<Fault> {};

// The step ends with the cause. Weights and states that are said to be whole are those of the last
// step that was told.
TEST_P(DiskFaults, EndTheStepWithTheCause) {
  const Fault& fault = GetParam();
  std::vector<std::string> after;  // so many steps
  for (int steps = 0; steps < 5; ++steps) {
    after.push_back(train_small(small_settings(), 2, steps).weights);
  }
  for (const int at : {0, 3, 20}) {
    std::atomic<bool> armed = false;
    std::atomic<int> seen = 0;
    io::QueueOptions queue;
    queue.patience = std::chrono::milliseconds(200);
    queue.hook = [&](io::Direction direction, const io::DirectRequest& request,
                     std::int64_t result) -> std::optional<std::int64_t> {
      if (!armed || direction != fault.direction || seen++ < at) return result;
      return fault.change(request, result);
    };
    TrainingSettings s = with_disk(small_settings(), placements().front(), queue);
    Runtime runtime(test_device(), 2);
    TrainingRun run(runtime, s);
    initialize(run);
    run.step(made_up_batches(s, 0));
    run.finish();
    armed = true;
    try {
      for (int step = 1; step < 4; ++step) run.step(made_up_batches(s, step));
      run.finish();
      ADD_FAILURE() << fault.name << " at " << at << " went unnoticed";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(fault.says), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(folder().string()), std::string::npos)
          << error.what();
    }
    const bool whole = run.settle();
    if (fault.direction == io::Direction::write) {
      EXPECT_FALSE(whole) << fault.name << " at " << at;
    }
    armed = false;
    if (!whole || fault.name == "stalls") continue;  // nothing is read where one has stalled
    EXPECT_EQ(run.store().weights_digest(), after[static_cast<std::size_t>(run.steps_done())])
        << fault.name << " at " << at << ", step " << run.steps_done();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DiskFaults,
    testing::Values(
        Fault{"eio_read", io::Direction::read,
              [](const io::DirectRequest&, std::int64_t) {
                return std::optional<std::int64_t>(-EIO);
              },
              "kernel"},
        Fault{"eio_write", io::Direction::write,
              [](const io::DirectRequest&, std::int64_t) {
                return std::optional<std::int64_t>(-EIO);
              },
              "kernel"},
        Fault{"full", io::Direction::write,
              [](const io::DirectRequest&, std::int64_t) {
                return std::optional<std::int64_t>(-ENOSPC);
              },
              "--disk"},
        Fault{"nothing_written", io::Direction::write,
              [](const io::DirectRequest&, std::int64_t) { return std::optional<std::int64_t>(0); },
              "bytes"},
        Fault{"stalls", io::Direction::read,
              [](const io::DirectRequest&, std::int64_t) { return std::optional<std::int64_t>(); },
              "not answered"},
        Fault{"lies", io::Direction::read,
              [](const io::DirectRequest& request, std::int64_t result) {
                request.memory[request.bytes / 2] ^= std::byte{1};
                return std::optional(result);
              },
              "not those that were written"}),
    [](const auto& info) { return info.param.name; });

// Weights that do not come: the step cannot have begun, and all is as the step before left it.
TEST(DiskFaults, AStepThatCannotBeginLeavesAllWhole) {
  const Outcome expected = train_small(small_settings(), 2, 2);
  std::atomic<bool> armed = false;
  io::QueueOptions queue;
  queue.hook = [&](io::Direction direction, const io::DirectRequest&,
                   std::int64_t result) -> std::optional<std::int64_t> {
    return armed && direction == io::Direction::read ? -EIO : result;
  };
  const TrainingSettings s = with_disk(small_settings(), placements()[3], queue);
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, s);
  initialize(run);
  for (int step = 0; step < 2; ++step) run.step(made_up_batches(s, step));
  run.finish();
  armed = true;
  EXPECT_THROW(run.step(made_up_batches(s, 2)), IoError);
  EXPECT_TRUE(run.settle());
  EXPECT_EQ(run.steps_done(), 2);
  armed = false;
  EXPECT_EQ(run.store().weights_digest(), expected.weights);
  EXPECT_EQ(run.store().moments_digest(), expected.moments);
}

// Short transfers go on with the rest: nobody notices.
TEST(DiskFaults, ShortTransfersChangeNothing) {
  std::atomic<std::int64_t> shortened = 0;
  io::QueueOptions queue;
  queue.hook = [&](io::Direction, const io::DirectRequest&,
                   std::int64_t result) -> std::optional<std::int64_t> {
    if (result < 8192 || shortened++ % 3 != 0) return result;
    return result / 2 / 4096 * 4096;
  };
  const TrainingSettings plain = small_settings();
  const Outcome expected = train_small(plain, 2, 3);
  const Outcome found = train_small(with_disk(plain, placements()[8], queue), 2, 3);
  EXPECT_GT(shortened, 10);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.moments, expected.moments);
}

TEST(DiskFlags, AreReadOrRefused) {
  const auto parsed = find_disks({parse_disk_folder("/scratch:500GiB"),
                                  parse_disk_folder("/a:b:1MiB"), parse_disk_folder("/c:d/e:1MiB")},
                                 nullptr);
  ASSERT_EQ(parsed.size(), 3u);
  EXPECT_EQ(parsed[0].path, "/scratch");
  EXPECT_EQ(parsed[0].most, 500 * kGiB);
  EXPECT_EQ(parsed[1].path, "/a:b");
  EXPECT_EQ(parsed[2].path, "/c:d/e");
  for (const char* bad : {"", ":5GiB", "/scratch", "/scratch:", "/scratch:x", "/scratch:-1GiB",
                          "/scratch:0", "/scratch:512KiB"}) {
    EXPECT_THROW(find_disks({parse_disk_folder(bad)}, nullptr), ConfigError) << bad;
  }
}

}  // namespace
}  // namespace ebb::engine
