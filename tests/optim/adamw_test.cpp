#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ebb/error.h"
#include "kernels/reference/optimizer_ops.h"
#include "kernels/split_master.h"

namespace ebb::optim {
namespace {

// AdamW as its paper writes it, in double.
struct TextbookAdamW {
  double p, m = 0, v = 0;
  void step(const AdamW& with, double rate, int t, double g) {
    m = with.beta1 * m + (1 - with.beta1) * g;
    v = with.beta2 * v + (1 - with.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(with.beta1, t));
    const double v_hat = v / (1 - std::pow(with.beta2, t));
    p -= rate * with.weight_decay * p;
    p -= rate * m_hat / (std::sqrt(v_hat) + with.epsilon);
  }
};

// Both weight types: the split master loses nothing, so they stay equal to the bit.
TEST(AdamW, AThousandStepsFollowTheTextbookWithinFp32Rounding) {
  constexpr std::size_t kCount = 64;
  constexpr std::uint64_t kSeed = 17;
  const AdamW adamw;
  const CounterRng start(kSeed, 1);
  std::vector<TextbookAdamW> expected;
  std::vector<float> weight(kCount), gradient(kCount);
  std::vector<bf16> high(kCount);
  std::vector<std::int16_t> low(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    weight[i] = static_cast<float>(start.normal(i));
    expected.push_back({weight[i]});
    const kernels::Halves halves = kernels::split_master(weight[i]);
    high[i] = halves.high;
    low[i] = halves.low;
  }
  std::vector<float> first(kCount), second(kCount), split_first(kCount), split_second(kCount);
  kernels::StateSpan span{weight.data(), DType::f32,      nullptr,    first.data(),
                          second.data(), gradient.data(), DType::f32, kCount};
  kernels::StateSpan split{high.data(),         DType::bf16,     low.data(), split_first.data(),
                           split_second.data(), gradient.data(), DType::f32, kCount};
  kernels::ReferenceOptimizerOps ops;
  const kernels::StepScale scale;
  for (int t = 1; t <= 1000; ++t) {
    const CounterRng noise(kSeed, 100 + static_cast<std::uint64_t>(t));
    const double rate = 1e-3;
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient[i] = static_cast<float>(0.01 * (noise.normal(i) + start.normal(i)));
      expected[i].step(adamw, rate, t, gradient[i]);
    }
    const kernels::AdamWStep step = adamw_step(adamw, rate, t, true);
    ops.adamw(span, step, &scale);
    ops.adamw(split, step, &scale);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    // A rounding of 2^-24 a step. (Most of it is that of the decay factor, the same every step.)
    EXPECT_NEAR(weight[i], expected[i].p, 1000 * 0x1p-24 * (1 + std::abs(expected[i].p)))
        << "index " << i << ", seed " << kSeed;
    EXPECT_NEAR(first[i], expected[i].m, 1e-6 * 0.05) << "index " << i;
    EXPECT_NEAR(second[i] / expected[i].v, 1, 1e-5) << "index " << i;
    EXPECT_EQ(weight[i], kernels::join_master(high[i], low[i])) << "index " << i;
    EXPECT_EQ(first[i], split_first[i]) << "index " << i;
    EXPECT_EQ(second[i], split_second[i]) << "index " << i;
  }
}

TEST(AdamW, AStepsNumbersAreRoundedOnce) {
  const AdamW adamw{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1};
  const kernels::AdamWStep step = adamw_step(adamw, 3e-4, 1, true);
  EXPECT_EQ(step.beta1, 0.9f);
  EXPECT_EQ(step.one_minus_beta1, static_cast<float>(1.0 - 0.9));
  EXPECT_EQ(step.one_minus_beta2, static_cast<float>(1.0 - 0.999));  // not 1.0f - 0.999f
  EXPECT_FLOAT_EQ(step.step_size, 3e-3f);
  EXPECT_FLOAT_EQ(step.inverse_root_correction2, 31.6227766f);
  EXPECT_EQ(step.decay_factor, static_cast<float>(1.0 - 3e-4 * 0.1));
  EXPECT_EQ(adamw_step(adamw, 3e-4, 1, false).decay_factor, 1.0f);
  EXPECT_FLOAT_EQ(adamw_step(adamw, 3e-4, 1'000'000, true).step_size, 3e-4f);
}

TEST(AdamW, BetasOfZeroAreAllowed) {
  const kernels::AdamWStep step = adamw_step({.beta1 = 0, .beta2 = 0}, 0.5, 1, true);
  EXPECT_EQ(step.step_size, 0.5f);
  EXPECT_EQ(step.inverse_root_correction2, 1.0f);
}

void expect_refused(const AdamW& adamw, const std::string& flag) {
  try {
    validate(adamw);
    FAIL() << "accepted a wrong " << flag;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(flag + " "), std::string::npos) << error.what();
  }
}

TEST(AdamW, RefusalsNameTheFlag) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NO_THROW(validate(AdamW{}));
  for (const double bad : {1.0, -0.1, kNan}) {
    expect_refused({.beta1 = bad}, "--beta1");
    expect_refused({.beta2 = bad}, "--beta2");
  }
  for (const double bad : {0.0, 1e-46, -1e-8, kNan}) expect_refused({.epsilon = bad}, "--epsilon");
  for (const double bad : {-1.0, kNan}) expect_refused({.weight_decay = bad}, "--weight-decay");
}

}  // namespace
}  // namespace ebb::optim
