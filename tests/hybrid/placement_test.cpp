// Where states lie, how they are cut and how many threads there are never changes a bit: all of it
// gives what the reference gives by hand.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "hand_run.h"

namespace ebb::hybrid {
namespace {

struct Place {
  std::string states = "stream";
  std::optional<double> offload{};
  std::optional<double> host{};
  std::int64_t chunk = 4096;
  Bytes window = 0;
  int threads = 2;

  std::string text() const {
    return fmt::format("{} {} {} chunk {} window {} threads {}", states, offload.value_or(-1),
                       host.value_or(-1), chunk, window, threads);
  }
  Settings settings() const {
    Settings s;
    s.states = states;
    s.offload_fraction = offload;
    s.host_fraction = host;
    s.chunk_parameters = chunk;
    s.window = window;
    s.threads = threads;
    s.seed = 11;
    return s;
  }
};

const std::vector<Place>& places() {
  static const std::vector<Place> all = {
      {.states = "resident"},
      {.states = "resident", .chunk = 1 << 20, .threads = 1},
      {.states = "stream"},
      {.states = "stream", .chunk = 1 << 20},
      {.states = "stream", .chunk = 3 * 4096, .window = 2 * 3 * 4096 * 12, .threads = 1},
      {.states = "stream", .offload = 0.5, .chunk = 8192},
      {.states = "host"},
      {.states = "host", .chunk = 1 << 20, .threads = 3},
      {.states = "host", .offload = 0.4},
      {.states = "stream", .offload = 0.8, .host = 0.3},
      {.states = "stream", .offload = 1.0, .host = 0.5, .chunk = 8192, .threads = 3},
  };
  return all;
}

void expect_as_by_hand(const states::Rule& rule, const HybridOptimizer::Rule& wish,
                       const std::string& format, const std::vector<TensorShape>& shapes,
                       const Place& place, int steps, std::uint64_t slow_lanes_seed = 0) {
  Loop by_hand(shapes);
  HandRun expected(by_hand, rule, states::parse_state_format(format), 11);
  Loop loop(shapes);
  Settings settings = place.settings();
  settings.rule = wish;
  settings.state_format = format;
  Optimizer optimizer(settings, loop.parameters(), nullptr, slow_lanes_seed);
  const std::string what = fmt::format("{} {} at {}", wish.name, format, place.text());
  for (std::int64_t step = 1; step <= steps; ++step) {
    const states::GradientNorm norm = expected.step(step);
    const HybridOptimizer::StepReport report = step_once(optimizer, loop, step);
    ASSERT_EQ(report.norm, norm.value) << what << ", step " << step;
    ASSERT_EQ(static_cast<float>(report.clip_factor), norm.scale.gradient_scale) << what;
    ASSERT_LT(report.clip_factor, 1.0) << "the gradients were meant to be clipped";
    ASSERT_TRUE(report.applied);
    ASSERT_EQ(report.step, step);
  }
  expect_equal(optimizer, expected, by_hand, what);
}

class Formats : public testing::TestWithParam<std::string> {};

TEST_P(Formats, EveryPlacementGivesTheBitsOfTheReference) {
  for (const Place& place : places()) {
    expect_as_by_hand(states::AdamW{}, {}, GetParam(), small_shapes(), place, 5);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Formats, SlowLanesChangeNothing) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const Place& place : places()) {
      expect_as_by_hand(states::AdamW{}, {}, GetParam(), small_shapes(), place, 3, seed);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Formats, testing::Values("exact", "bf16", "int8"),
                         [](const auto& info) { return info.param; });

TEST(Types, WeightsAndGradientsOfEitherType) {
  for (const Type weight : {Type::bf16, Type::fp32}) {
    for (const Type gradient : {Type::bf16, Type::fp32}) {
      for (const Place& place : places()) {
        expect_as_by_hand(states::AdamW{}, {}, "exact", small_shapes(weight, gradient), place, 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Types, MixedWithinOneModel) {
  std::vector<TensorShape> shapes = small_shapes();
  shapes[1].weight_type = Type::fp32;
  shapes[3].gradient_type = Type::fp32;
  shapes[4].weight_type = shapes[4].gradient_type = Type::fp32;
  for (const std::string format : {"exact", "int8"}) {
    for (const Place& place : places()) {
      expect_as_by_hand(states::AdamW{}, {}, format, shapes, place, 3);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Rules, AllOfThem) {
  const std::vector<std::pair<states::Rule, HybridOptimizer::Rule>> rules = {
      {states::AdamW{.beta1 = 0.8, .weight_decay = 0.3},
       {.name = "adamw", .beta1 = 0.8, .weight_decay = 0.3}},
      {states::Adam{.weight_decay = 0.01}, {.name = "adam", .weight_decay = 0.01}},
      {states::Lion{.beta2 = 0.98}, {.name = "lion", .beta2 = 0.98}},
      {states::Sgd{.momentum = 0.7, .nesterov = true},
       {.name = "sgd", .momentum = 0.7, .nesterov = true}},
      {states::Adagrad{.epsilon = 1e-6}, {.name = "adagrad", .epsilon = 1e-6}}};
  for (const auto& [rule, wish] : rules) {
    for (const Place& place : places()) {
      expect_as_by_hand(rule, wish, "exact", small_shapes(), place, 3);
      if (HasFatalFailure()) return;
    }
  }
}

// What was meant to leave has left: a placement that silently keeps everything would pass above.
TEST(Placement, SharesAreWhatTheSettingsSay) {
  Loop loop(small_shapes());
  std::int64_t total = 0;
  for (const Tensor& t : loop.tensors) total += t.shape.count;
  const auto place = [&](const Place& wish) {
    return Optimizer(wish.settings(), loop.parameters(), nullptr).placement();
  };
  EXPECT_EQ(place({.states = "resident"}).resident_parameters, total);
  EXPECT_EQ(place({.states = "stream"}).streamed_parameters, total);
  EXPECT_EQ(place({.states = "host"}).host_parameters, total);
  const auto mixed = place({.states = "stream", .offload = 0.8, .host = 0.3});
  EXPECT_EQ(mixed.resident_parameters + mixed.streamed_parameters + mixed.host_parameters, total);
  // A chunk that is partly within a share is all of it, and a chunk has 4096 parameters at most.
  EXPECT_NEAR(mixed.host_parameters, 0.3 * static_cast<double>(total), 4096);
  EXPECT_GE(mixed.host_parameters, 0.3 * static_cast<double>(total));
  EXPECT_NEAR(mixed.streamed_parameters, 0.5 * static_cast<double>(total), 4096);
}

TEST(Placement, LinkBytesAreThoseOfTheTable) {
  Loop loop(small_shapes());
  std::int64_t squares = 0;
  for (const Tensor& t : loop.tensors) squares += kernels::norm_blocks(t.shape.count);
  for (const Place& place : places()) {
    Optimizer optimizer(place.settings(), loop.parameters(), nullptr);
    Bytes up = 0;
    Bytes down = 0;
    for (const Chunk& chunk : optimizer.chunks()) {
      if (chunk.site == Site::stream) {
        up += chunk.state_bytes();
        down += chunk.state_bytes();
      } else if (chunk.site == Site::host) {
        up += chunk.parameters * 2;    // weights
        down += chunk.parameters * 2;  // gradients
      }
    }
    constexpr int steps = 3;
    for (int step = 1; step <= steps; ++step) step_once(optimizer, loop, step);
    optimizer.wait();
    const auto scale = static_cast<Bytes>(sizeof(kernels::StepScale));
    EXPECT_EQ(optimizer.traffic().up, steps * (up + scale)) << place.text();
    EXPECT_EQ(optimizer.traffic().down, steps * (down + 8 * squares)) << place.text();
  }
}

}  // namespace
}  // namespace ebb::hybrid
