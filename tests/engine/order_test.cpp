// The promise: the timing of lanes never changes the numbers. Lanes are slowed down at random and
// memory is poisoned when objects come and go.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/small_runs.h"
#include "scale.h"

namespace ebb::engine {
namespace {

plan::FixedChoices mixed(double offload, double host, std::int64_t recompute, std::int64_t inputs) {
  return {.site = plan::Site::stream,
          .offload_fraction = offload,
          .host_fraction = host,
          .recompute_blocks = recompute,
          .host_inputs = inputs,
          .chunk_parameters = 4096};
}

// The smallest device limit, to 4 KiB (32 under sanitizers), that the settings fit.
Bytes least_limit(TrainingSettings settings) {
  Runtime runtime(test_device(), 2);
  const auto fits = [&](Bytes limit) {
    settings.limits[plan::Tier::device] = limit;
    try {
      plan_training(runtime, settings);
      return true;
    } catch (const OutOfBudget&) {
      return false;
    }
  };
  Bytes low = 0;
  // With plenty of memory it takes no less.
  Bytes high = plan_training(runtime, settings).peak(plan::Tier::device);
  while (high - low > (small_scale() ? 32 * kKiB : 4 * kKiB)) {
    const Bytes middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

TEST(Order, SlowLanesAndPoisonChangeNothing) {
  constexpr int steps = 4;
  for (const int accumulate : {1, 2, 4}) {
    if (small_scale() && accumulate == 2) continue;
    TrainingSettings settings = small_settings();
    settings.accumulate = accumulate;
    const Outcome expected = train_small(settings, 2, steps);
    std::uint64_t seed = 0;
    // Of one model of three layers nothing stays on the device.
    plan::FixedChoices nothing_stays = mixed(1, 0.5, 3, 3);
    nothing_stays.streamed_weights = nothing_stays.host_sums = 5;
    for (const auto& fixed :
         {mixed(1, 0.3, 3, 3), mixed(1, 0, 3, 3), mixed(1, 1, 2, 3), nothing_stays}) {
      settings.fixed = fixed;
      // With the least memory states wait for activations and for each other; with plenty nothing
      // does, and lanes run far apart.
      for (const Bytes limit : {least_limit(settings), Bytes{kGiB}}) {
        TrainingSettings disturbed = settings;
        disturbed.limits[plan::Tier::device] = limit;
        disturbed.disturbance = {
            .slow_lanes_seed = ++seed, .poison = true, .threads = seed % 2 == 0};
        const std::string where = fmt::format("accumulate {} limit {} host {} seed {}", accumulate,
                                              limit, *fixed.host_fraction, seed);
        const Outcome found = train_small(disturbed, 2, steps);
        EXPECT_EQ(found.weights, expected.weights) << where;
        EXPECT_EQ(found.moments, expected.moments) << where;
      }
    }
  }
}

TEST(Order, AFailureOnALaneEndsTheStepWithItsCause) {
  TrainingSettings settings = small_settings();
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, settings);
  initialize(run);
  run.step(made_up_batches(settings, 0));
  run.finish();
  const std::string weights = run.store().weights_digest();
  const std::string moments = run.store().moments_digest();
  // A weight that is not finite makes the norm not finite: the step must not be applied.
  const std::vector<float> poison(1, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> before(1);
  const int victim = 8;
  run.store().read_master(victim, 3, before);
  run.store().write_master(victim, 3, poison);
  try {
    run.step(made_up_batches(settings, 1));
    run.finish();
    FAIL() << "a gradient that is not finite went unnoticed";
  } catch (const NumericsError& error) {
    EXPECT_NE(std::string(error.what()).find("step 2"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("model."), std::string::npos) << error.what();
  }
  run.store().write_master(victim, 3, before);
  EXPECT_EQ(run.store().weights_digest(), weights);
  EXPECT_EQ(run.store().moments_digest(), moments);
}

}  // namespace
}  // namespace ebb::engine
