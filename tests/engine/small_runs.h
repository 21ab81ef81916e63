// Small training runs for tests: a model of a few blocks on made-up tokens.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/training_run.h"
#include "model/parameters.h"
#include "paths.h"

namespace ebb::engine {

// The device that tests of the engine run on: cpu, or what EBB_TEST_DEVICE says.
inline std::string test_device() {
  const char* device = std::getenv("EBB_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

inline model::Config small_config() {
  return {.family = "qwen2",
          .hidden = 48,
          .layers = 3,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .intermediate = 112,
          .vocabulary = 96,
          .max_positions = 256,
          .rope_theta = 10000,
          .norm_epsilon = 1e-5,
          .initializer_range = 0.05,
          .qkv_bias = true,
          .tied = true};
}

inline TrainingSettings small_settings() {
  TrainingSettings s;
  s.config = small_config();
  s.shape = {.rows = 2, .sequence = 24};
  s.schedule = {.shape = states::Schedule::Shape::cosine, .peak = 3e-3, .warmup = 3, .steps = 20};
  s.limits = {{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}};
  s.fixed = {.site = plan::Site::resident,
             .offload_fraction = {},
             .host_fraction = {},
             .recompute_blocks = 0,
             .host_inputs = 0,
             .cheap_saved_blocks = 0,
             .streamed_weights = 0,
             .host_sums = 0,
             .chunk_parameters = 8192};
  return s;
}

// Batches that depend on the step and the micro-batch alone.
inline std::vector<text::Batch> made_up_batches(const TrainingSettings& s, std::int64_t step) {
  std::vector<text::Batch> batches;
  for (std::int64_t m = 0; m < s.accumulate; ++m) {
    const CounterRng rng(99, static_cast<std::uint64_t>(step * 100 + m));
    text::Batch batch;
    for (std::int64_t i = 0; i <= s.shape.tokens(); ++i) {
      // A skewed distribution, so that there is something to learn.
      const double u = rng.uniform(static_cast<std::uint64_t>(i));
      const auto id = static_cast<std::int32_t>(u * u * static_cast<double>(s.config.vocabulary));
      if (i < s.shape.tokens()) batch.tokens.push_back(id);
      if (i > 0) batch.targets.push_back(id);
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

inline void initialize(TrainingRun& run, std::uint64_t seed = 7) {
  const model::Initializer initializer(run.settings().config, seed);
  const auto& all = run.store().parameters().all;
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    std::vector<float> values(static_cast<std::size_t>(all[static_cast<std::size_t>(p)].count()));
    initializer.fill(all[static_cast<std::size_t>(p)], 0, static_cast<std::int64_t>(values.size()),
                     values.data());
    run.store().write_master(p, 0, values);
  }
  run.store().clear_moments();
}

struct Outcome {
  std::string weights;
  std::string moments;
  std::vector<double> losses;
  std::vector<double> norms;
  Bytes up = 0;
  Bytes down = 0;
  Bytes predicted_device = 0, measured_device = 0;
  Bytes predicted_host = 0, measured_host = 0;
};

inline Outcome train_small(const TrainingSettings& settings, int threads = 2, int steps = 20) {
  Runtime runtime(test_device(), threads);
  TrainingRun run(runtime, settings);
  initialize(run);
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const StepResult result = run.step(made_up_batches(settings, step));
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.norm);
  }
  run.finish();
  run.store().together([&] {
    outcome.weights = run.store().weights_digest();
    outcome.moments = run.store().moments_digest();
  });
  outcome.up = run.executor().moved(plan::Tier::host, plan::Tier::device);
  outcome.down = run.executor().moved(plan::Tier::device, plan::Tier::host);
  outcome.predicted_device = run.plan().peak(plan::Tier::device);
  outcome.measured_device = run.measured_peak(plan::Tier::device);
  outcome.predicted_host = run.plan().peak(plan::Tier::host);
  outcome.measured_host = run.measured_peak(plan::Tier::host);
  return outcome;
}

}  // namespace ebb::engine
