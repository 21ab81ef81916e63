// Micro-batches of many tokens, whose MLPs run in tiles: the order of sums is then another one, and
// it is the same wherever things lie. Here tiles are small.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "engine/numerics_key.h"
#include "engine/small_runs.h"
#include "engine/workload.h"
#include "kernels/estimated_needs.h"
#include "model/config.h"
#include "print.h"

namespace ebb::engine {
namespace {

constexpr int kSteps = 5;

// 48 tokens in tiles of ten and what is left.
TrainingSettings in_tiles(TrainingSettings settings) {
  settings.shape.largest_tile = 11;
  return settings;
}

model::Decoder decoder_of(const TrainingSettings& s) {
  return {s.config, s.dtype, s.gradient_type, s.shape};
}

struct Placement {
  std::string name;
  plan::FixedChoices fixed;
  int threads = 2;
};

std::vector<Placement> placements() {
  using enum plan::Site;
  const plan::FixedChoices resident_all = small_settings().fixed;
  std::vector<Placement> all;
  const auto add = [&](std::string name, int threads, auto change) {
    plan::FixedChoices fixed = resident_all;
    change(fixed);
    all.push_back({std::move(name), fixed, threads});
  };
  add("one thread", 1, [](plan::FixedChoices&) {});
  add("all kept", 2, [](plan::FixedChoices& w) { w.cheap_saved_blocks = 3; });
  add("recomputed", 2, [](plan::FixedChoices& w) { w.recompute_blocks = 3; });
  add("one recomputed, one kept", 3, [](plan::FixedChoices& w) {
    w.recompute_blocks = 1;
    w.cheap_saved_blocks = 1;
  });
  add("recomputed, inputs on the host", 2,
      [](plan::FixedChoices& w) { w.recompute_blocks = w.host_inputs = 3; });
  add("weights streamed", 2, [](plan::FixedChoices& w) { w.streamed_weights = 5; });
  add("nothing stays", 3, [](plan::FixedChoices& w) {
    w.site = stream;
    w.offload_fraction = 1;
    w.host_fraction = 0.5;
    w.recompute_blocks = w.host_inputs = 3;
    w.streamed_weights = w.host_sums = 5;
  });
  return all;
}

class TilesTest : public testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(TilesTest, GiveTheSameBitsWhateverThePlacement) {
  const auto [dtype, accumulate] = GetParam();
  TrainingSettings settings = in_tiles(small_settings());
  settings.dtype = settings.gradient_type = dtype;
  settings.accumulate = accumulate;
  ASSERT_EQ(decoder_of(settings).mlp_tile(), 10);
  const Outcome expected = train_small(settings, 2, kSteps);
  for (const Placement& placement : placements()) {
    SCOPED_TRACE(placement.name);
    settings.fixed = placement.fixed;
    settings.disturbance = {.slow_lanes_seed = 3, .poison = true};
    Runtime runtime(test_device(), placement.threads);
    TrainingRun run(runtime, settings);
    initialize(run);
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<text::Batch> batches = made_up_batches(settings, step);
      Evaluation all;
      for (const text::Batch& batch : batches) {
        const Evaluation one = run.evaluate(batch);
        all.loss_sum += one.loss_sum;
        all.loss_tokens += one.loss_tokens;
      }
      const StepResult result = run.step(batches);
      EXPECT_EQ(result.loss, all.loss_sum / static_cast<double>(all.loss_tokens));
      EXPECT_EQ(result.loss, expected.losses[static_cast<std::size_t>(step)]);
      EXPECT_EQ(result.norm, expected.norms[static_cast<std::size_t>(step)]);
    }
    run.finish();
    EXPECT_EQ(run.store().weights_digest(), expected.weights);
    EXPECT_EQ(run.store().moments_digest(), expected.moments);
    for (const plan::Tier tier : {plan::Tier::device, plan::Tier::host}) {
      EXPECT_EQ(run.plan().peak(tier), run.measured_peak(tier)) << tier.index;
    }
  }
}

// Sums over tiles are fp32 and rounded once: gradients differ by the order of sums alone, however
// many tiles there are.
TEST_P(TilesTest, GiveTheGradientsOfOneTileButForRounding) {
  const auto [dtype, accumulate] = GetParam();
  TrainingSettings settings = small_settings();
  settings.dtype = settings.gradient_type = dtype;
  settings.accumulate = accumulate;
  const Outcome whole = train_small(settings, 2, kSteps);
  const double near = dtype == DType::f32 ? 1e-5 : 2e-3;
  for (const std::int64_t tile : {1, 4, 11, 23}) {
    settings.shape.largest_tile = tile;
    ASSERT_LT(decoder_of(settings).mlp_tile(), settings.shape.tokens());
    const Outcome tiles = train_small(settings, 2, kSteps);
    EXPECT_NE(tiles.weights, whole.weights) << tile;
    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(tiles.losses[step], whole.losses[step], near * whole.losses[step]) << tile;
      EXPECT_NEAR(tiles.norms[step], whole.norms[step], 4 * near * whole.norms[step]) << tile;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TilesTest,
                         testing::Combine(testing::Values(DType::bf16, DType::f32),
                                          testing::Values(1, 3)),
                         [](const auto& info) {
                           return fmt::format("{}_accumulate{}", name_of(std::get<0>(info.param)),
                                              std::get<1>(info.param));
                         });

// Old checkpoints of shapes whose MLPs have one tile go on; those of others are told.
TEST(NumericsKey, KnowsTilesWhereThereAreSeveral) {
  Runtime runtime("cpu", 1);
  TrainingSettings settings = small_settings();
  const auto key = [&] { return numerics_key(runtime, settings, 0, {}); };
  const Json one = key();
  EXPECT_FALSE(one.contains("mlp_tile"));
  settings = in_tiles(settings);
  EXPECT_EQ(key().at("mlp_tile"), 10);
  const auto differences = compare_keys(one, key());
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].field, "mlp_tile");
  EXPECT_FALSE(differences[0].machine);
}

plan::Workload llama(std::int64_t tokens) {
  const auto needs = kernels::estimate_needs("cuda", 16);
  kernels::CountingOps ops(*needs);
  const model::Config config = model::preset("llama-3.1-8b");
  const model::Decoder decoder(config, DType::bf16, DType::bf16, {.rows = 1, .sequence = tokens});
  return training_workload(decoder, model::parameters_of(config), ops, {});
}

// By hand: widths of 4096 (the residual stream and what attention reads and makes), 6144 (q, k and
// v), 28,672 (gate and up) and 14,336 (their product), of bf16.
TEST(LongSequences, ABlockThatIsRecomputedHasATileOfItsMlp) {
  constexpr Bytes hidden = 2 * 4096, qkv = 2 * 6144, up = 2 * 28'672, product = 2 * 14'336;
  constexpr Bytes log_sums = 4 * 32, stats = 4, tile = 16'384;
  constexpr Bytes weight_sums = 4 * Bytes{4096} * (28'672 + 14'336);
  for (const Bytes tokens : {Bytes{65'536}, Bytes{131'072}, Bytes{262'144}}) {
    const plan::Block block = llama(tokens).blocks[1];
    EXPECT_EQ(block.saved, tokens * (stats + qkv + hidden + log_sums + hidden));
    EXPECT_EQ(block.saved_mlp, tokens * (stats + up));
    EXPECT_EQ(block.recompute_work, tokens * hidden);
    const Bytes of_tile = tokens * stats + tile * (up + hidden + product);
    EXPECT_EQ(block.lean_forward_work, std::max(tokens * hidden, of_tile));
    EXPECT_EQ(block.lean_backward_work,
              tokens * hidden + std::max(of_tile + weight_sums, tokens * qkv));
  }
}

// Recomputing costs what it did when gate and up were made with the rest.
TEST(LongSequences, WhatIsComputedAgainIsComputedOnce) {
  for (const std::int64_t tokens : {std::int64_t{8192}, std::int64_t{131'072}}) {
    const plan::Block block = llama(tokens).blocks[1];
    const double each = 2.0 * static_cast<double>(tokens) * 4096;
    EXPECT_EQ(block.mlp_again.flops, each * 28'672);
    // Without the down product, which adds to the residual stream.
    EXPECT_EQ(block.recompute.flops,
              block.forward.flops - each * (28'672 + 14'336) - static_cast<double>(tokens) * 4096);
    EXPECT_EQ(block.recompute.attention_flops, block.forward.attention_flops);
    EXPECT_EQ(block.mlp_again.pass_bytes, 0);
  }
}

}  // namespace
}  // namespace ebb::engine
