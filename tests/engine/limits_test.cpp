// The promise: the limit holds. A run is refused before it starts, or ends with measured peak =
// predicted peak <= limit.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/small_runs.h"
#include "scale.h"

namespace ebb::engine {
namespace {

struct Sweep {
  int refused = 0;
  int ran = 0;
};

// Runs two steps under each limit, from far too small to roomy.
Sweep sweep(TrainingSettings settings, Bytes resident_peak) {
  Sweep result;
  bool ran_before = false;
  std::string digest;
  // What libraries take and want as workspace is the same under every limit.
  Runtime runtime(test_device(), 2);
  const plan::Workload work = plan_training(runtime, settings).workload;
  const Bytes fixed = work.extra(plan::Tier::device) + work.scratch;
  for (int percent = 4; percent <= 112; percent += small_scale() ? 12 : 4) {
    settings.limits[plan::Tier::device] = fixed + (resident_peak - fixed) * percent / 100;
    try {
      const Outcome outcome = train_small(settings, 2, 2);
      ++result.ran;
      ran_before = true;
      EXPECT_EQ(outcome.measured_device, outcome.predicted_device) << percent << "%";
      EXPECT_LE(outcome.measured_device, settings.limits[plan::Tier::device]) << percent << "%";
      EXPECT_EQ(outcome.measured_host, outcome.predicted_host) << percent << "%";
      if (digest.empty()) digest = outcome.weights;
      EXPECT_EQ(outcome.weights, digest) << percent << "%";
    } catch (const OutOfBudget& refusal) {
      ++result.refused;
      EXPECT_FALSE(ran_before) << "refused at " << percent << "% but ran with less";
      EXPECT_NE(std::string(refusal.what()).find("Missing on the device"), std::string::npos)
          << refusal.what();
    }
  }
  return result;
}

TEST(Limits, EveryRunIsRefusedOrStaysBelow) {
  for (const int accumulate : {1, 2, 3}) {
    TrainingSettings settings = small_settings();
    settings.accumulate = accumulate;
    settings.shape.rows = 6;  // activations weigh as much as states
    const Bytes resident = train_small(settings, 2, 1).predicted_device;
    settings.fixed = {};
    const Sweep result = sweep(settings, resident);
    EXPECT_GT(result.refused, 0) << accumulate;
    EXPECT_GT(result.ran, small_scale() ? 3 : 10) << accumulate;
  }
}

TEST(Limits, ResidentIsRefusedWhereThePlanFits) {
  TrainingSettings settings = small_settings();
  const Bytes resident = train_small(settings, 2, 1).predicted_device;
  settings.limits[plan::Tier::device] = resident - plan::kAlignment;
  EXPECT_THROW(train_small(settings, 2, 1), OutOfBudget);
  settings.limits[plan::Tier::device] = resident;
  EXPECT_NO_THROW(train_small(settings, 2, 1));
}

TEST(Limits, TheHostLimitHoldsToo) {
  TrainingSettings settings = small_settings();
  settings.fixed.site = plan::Site::stream;
  const Bytes needed = train_small(settings, 2, 1).predicted_host;
  settings.limits[plan::Tier::host] = needed - 1;
  try {
    train_small(settings, 2, 1);
    FAIL() << "ran with a host limit one byte too small";
  } catch (const OutOfBudget& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("Missing on the host: 1 B"), std::string::npos)
        << refusal.what();
  }
  settings.limits[plan::Tier::host] = needed;
  EXPECT_NO_THROW(train_small(settings, 2, 1));
}

TEST(Limits, OfZeroIsRefused) {
  TrainingSettings settings = small_settings();
  settings.fixed = {};
  settings.limits[plan::Tier::device] = 0;
  EXPECT_THROW(train_small(settings), OutOfBudget);
}

}  // namespace
}  // namespace ebb::engine
