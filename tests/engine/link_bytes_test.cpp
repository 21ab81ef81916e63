// What crosses the link is counted where it is copied, and must equal the formula of the plan: an
// offload that silently did not happen fails here.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/small_runs.h"

namespace ebb::engine {
namespace {

struct Expected {
  Bytes up = 0;
  Bytes down = 0;
};

std::int64_t squares(const model::Parameters& parameters) {
  std::int64_t count = 0;
  for (const model::Parameter& p : parameters.all) count += (p.count() + 4095) / 4096;
  return count;
}

// Written from the table of sites, without the program: 10 bytes a streamed parameter each way, a
// gradient down for each micro-batch and a weight up for each the CPU updates.
//
// Where all weights live in host memory, those of a layer come up twice for each micro-batch, those
// of the head once, and those of the tied embedding twice; no weight goes up when it is updated.
// Where all gradients leave, one that is updated on the device comes back.
Expected formula(const TrainingSettings& s, const std::vector<plan::Chunk>& chunks,
                 std::int64_t host_inputs, bool weights_away, bool sums_away) {
  const Bytes wide = s.dtype == DType::bf16 ? 2 : 4;
  Expected e;
  if (weights_away) {
    const model::Parameters all = model::parameters_of(s.config);
    for (std::size_t b = 0; b < all.blocks.size(); ++b) {
      e.up += (b + 1 == all.blocks.size() ? 1 : 2) * all.blocks[b].length * wide * s.accumulate;
    }
  }
  for (const plan::Chunk& chunk : chunks) {
    if (chunk.site() != plan::Site::host) {
      e.up += chunk.count * wide * ((weights_away ? 1 : 0) + (sums_away ? 1 : 0));
      e.down += chunk.count * wide * ((weights_away ? 1 : 0) + (sums_away ? s.accumulate : 0));
    }
    if (chunk.site() == plan::Site::stream) {
      const auto plane = [](Bytes bytes) { return (bytes + 63) / 64 * 64; };
      const Bytes low = s.dtype == DType::bf16 ? plane(2 * chunk.count) : 0;
      const Bytes state = low + plane(4 * chunk.count) + 4 * chunk.count;
      e.up += state;
      e.down += state;
    } else if (chunk.site() == plan::Site::host) {
      e.down += chunk.count * wide * s.accumulate;
      e.up += weights_away ? 0 : chunk.count * wide;
    }
  }
  const Bytes input = s.shape.tokens() * s.config.hidden * wide;
  e.up += host_inputs * input * s.accumulate;
  e.down += host_inputs * input * s.accumulate;
  e.up += s.accumulate * s.shape.tokens() * 8;                             // ids and targets
  e.up += 8;                                                               // the scale
  e.down += 8 * (s.accumulate + squares(model::parameters_of(s.config)));  // the report
  return e;
}

TEST(LinkBytes, EqualTheFormulaOfThePlan) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const std::int64_t accumulate : {1, 2, 4}) {
      for (const double host : {0.0, 0.3, 1.0}) {
        for (const double offload : {0.0, 0.5, 1.0}) {
          for (const int away : {0, 1, 2, 3}) {
            const bool weights = (away & 1) != 0, sums = (away & 2) != 0;
            const std::int64_t inputs = away == 0 || away == 3 ? 2 : 0;
            TrainingSettings s = small_settings();
            s.dtype = s.gradient_type = dtype;
            s.accumulate = accumulate;
            s.fixed.site = plan::Site::stream;
            s.fixed.offload_fraction = offload;
            s.fixed.host_fraction = std::min(host, offload);
            s.fixed.host_inputs = inputs;
            s.fixed.streamed_weights = weights ? s.config.layers + 2 : 0;
            s.fixed.host_sums = sums ? s.config.layers + 2 : 0;
            const std::string where =
                fmt::format("{} accumulate {} offload {} host {} inputs {} away {}", name_of(dtype),
                            accumulate, offload, host, inputs, away);
            Runtime runtime(test_device(), 1);
            TrainingRun run(runtime, s);
            initialize(run);
            const Expected one = formula(s, run.plan().program.chunks, inputs, weights, sums);
            constexpr int steps = 2;
            for (int step = 0; step < steps; ++step) run.step(made_up_batches(s, step));
            run.finish();
            EXPECT_EQ(run.executor().moved(plan::Tier::host, plan::Tier::device), steps * one.up)
                << where;
            EXPECT_EQ(run.executor().moved(plan::Tier::device, plan::Tier::host), steps * one.down)
                << where;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb::engine
