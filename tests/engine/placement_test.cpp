// The promise: placement never changes the numbers. Every plan gives bit-identical weights and
// moments for one numerics key.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "engine/small_runs.h"
#include "plan/explain.h"
#include "print.h"
#include "scale.h"

namespace ebb::engine {
namespace {

struct Placement {
  std::string name;
  plan::FixedChoices fixed;
  int threads = 2;
  exec::Disturbance disturbance = {};
};

plan::FixedChoices fixed(plan::Site site, double fraction, double host_fraction = -1,
                         std::int64_t recompute = 0, std::int64_t inputs = 0,
                         std::int64_t chunk = 8192, std::int64_t kept = 0) {
  plan::FixedChoices w{.site = site,
                       .offload_fraction = fraction,
                       .host_fraction = {},
                       .recompute_blocks = recompute,
                       .host_inputs = inputs,
                       .cheap_saved_blocks = kept,
                       .streamed_weights = 0,
                       .host_sums = 0,
                       .chunk_parameters = chunk};
  if (host_fraction >= 0) w.host_fraction = host_fraction;
  return w;
}

plan::FixedChoices away(plan::FixedChoices fixed, std::int64_t weights, std::int64_t sums,
                        std::optional<std::int64_t> depth = {}) {
  fixed.streamed_weights = weights;
  fixed.host_sums = sums;
  fixed.depth = depth;
  return fixed;
}

std::vector<Placement> placements() {
  using enum plan::Site;
  return {
      {"resident, one thread", fixed(resident, 0), 1},
      {"stream all", fixed(stream, 1)},
      {"stream all, one thread", fixed(stream, 1), 1},
      {"host all", fixed(host, 1)},
      {"stream half", fixed(stream, 0.5)},
      {"host a third", fixed(host, 0.33)},
      {"stream and host", fixed(stream, 0.9, 0.4)},
      {"small chunks", fixed(stream, 0.8, 0.3, 0, 0, 4096)},
      {"huge chunks", fixed(stream, 0.8, 0.3, 0, 0, 1 << 20)},
      {"recompute", fixed(resident, 0, -1, 3)},
      {"recompute one block", fixed(stream, 1, -1, 1)},
      {"inputs on the host", fixed(resident, 0, -1, 0, 3)},
      {"recompute, inputs on the host", fixed(stream, 1, 0.5, 3, 3)},
      {"two inputs on the host, host", fixed(host, 1, -1, 3, 2), 3},
      {"all kept", fixed(resident, 0, -1, 0, 0, 8192, 3)},
      {"one recomputed, one kept", fixed(stream, 1, 0.5, 1, 0, 8192, 1)},
  };
}

// Weights that live in host memory and gradients that leave as they are made.
std::vector<Placement> away_placements() {
  using enum plan::Site;
  return {
      {"all weights streamed", away(fixed(resident, 0), 5, 0)},
      {"one block's weights streamed", away(fixed(stream, 1), 1, 0, 3)},
      {"weights of layers streamed, host", away(fixed(host, 1), 3, 0)},
      {"sums on the host", away(fixed(resident, 0), 0, 5)},
      {"some sums on the host", away(fixed(stream, 0.5), 0, 2, 8)},
      {"nothing stays", away(fixed(stream, 1, 0, 3, 3), 5, 5)},
      {"nothing stays, half by the CPU", away(fixed(stream, 1, 0.5, 3, 3), 5, 5), 3},
      {"nothing stays, by the CPU", away(fixed(host, 1, -1, 3, 3), 5, 5)},
      {"some of everything", away(fixed(stream, 0.8, 0.3, 1, 2, 4096, 1), 4, 3)},
  };
}

class PlacementTest : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  static TrainingSettings settings() {
    const auto [dtype, accumulate] = GetParam();
    TrainingSettings settings = small_settings();
    settings.dtype = settings.gradient_type = dtype;
    settings.accumulate = accumulate;
    return settings;
  }
};

void expect_same_bits(TrainingSettings settings, const std::vector<Placement>& all) {
  const Outcome expected = train_small(settings);
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const Placement& placement : all) {
    settings.fixed = placement.fixed;
    const Outcome found = train_small(settings, placement.threads);
    EXPECT_EQ(found.weights, expected.weights) << placement.name;
    EXPECT_EQ(found.moments, expected.moments) << placement.name;
    EXPECT_EQ(found.losses, expected.losses) << placement.name;
    EXPECT_EQ(found.predicted_device, found.measured_device) << placement.name;
    EXPECT_EQ(found.predicted_host, found.measured_host) << placement.name;
  }
}

TEST_P(PlacementTest, GivesTheSameBitsAsResident) { expect_same_bits(settings(), placements()); }

TEST_P(PlacementTest, WithWeightsAndGradientsAwayGivesTheSameBits) {
  TrainingSettings settings = PlacementTest::settings();
  expect_same_bits(settings, away_placements());
  if (small_scale()) return;
  settings.config.tied = false;
  expect_same_bits(settings, away_placements());
}

TEST(Placement, OfManyMicroBatchesGivesTheSameBits) {
  for (const int accumulate : {3, 7}) {
    TrainingSettings settings = small_settings();
    settings.accumulate = accumulate;
    expect_same_bits(settings, away_placements());
    if (small_scale()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlacementTest,
                         testing::Combine(testing::Values(DType::bf16, DType::f32),
                                          testing::Values(1, 2, 4)),
                         [](const auto& info) {
                           return fmt::format("{}_accumulate{}", name_of(std::get<0>(info.param)),
                                              std::get<1>(info.param));
                         });

}  // namespace
}  // namespace ebb::engine
