#include "states/rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ebb/error.h"
#include "kernels/reference/optimizer_ops.h"
#include "kernels/split_master.h"
#include "print.h"
#include "states/convert.h"

namespace ebb::states {

// GoogleTest prints the rule that a variant holds, not the variant.
template <class R>
requires std::constructible_from<Rule, const R&>
void PrintTo(const R& rule, std::ostream* out) { *out << name_of(Rule(rule)); }

namespace {

// The rules as their papers (and PyTorch's pages) write them, in double.
struct Textbook {
  double p, m = 0, v = 0;

  void step(const AdamW& with, double rate, int t, double g) {
    p -= rate * with.weight_decay * p;
    adam(with.beta1, with.beta2, with.epsilon, rate, t, g);
  }
  void step(const Adam& with, double rate, int t, double g) {
    adam(with.beta1, with.beta2, with.epsilon, rate, t, g + with.weight_decay * p);
  }
  void step(const Lion& with, double rate, int, double g) {
    const double u = with.beta1 * m + (1 - with.beta1) * g;
    p -= rate * with.weight_decay * p;
    p -= rate * (u > 0 ? 1 : u < 0 ? -1 : 0);
    m = with.beta2 * m + (1 - with.beta2) * g;
  }
  void step(const Sgd& with, double rate, int, double g) {
    g += with.weight_decay * p;
    m = with.momentum * m + g;
    p -= rate * (with.nesterov ? g + with.momentum * m : m);
  }
  void step(const Adagrad& with, double rate, int, double g) {
    g += with.weight_decay * p;
    m += g * g;
    p -= rate * g / (std::sqrt(m) + with.epsilon);
  }

 private:
  void adam(double beta1, double beta2, double epsilon, double rate, int t, double g) {
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, t));
    const double v_hat = v / (1 - std::pow(beta2, t));
    p -= rate * m_hat / (std::sqrt(v_hat) + epsilon);
  }
};

constexpr std::uint64_t kSeed = 17;
constexpr double kRate = 1e-3;

// A gradient with a mean of its own for every element, and noise.
float gradient_of(std::size_t i, int t) {
  const CounterRng mean(kSeed, 1);
  const CounterRng noise(kSeed, 100 + static_cast<std::uint64_t>(t));
  return static_cast<float>(0.01 * (noise.normal(i) + mean.normal(i)));
}

class EveryRule : public testing::TestWithParam<Rule> {};

// Both weight types: the split master loses nothing, so they stay equal to the bit.
TEST_P(EveryRule, AThousandStepsFollowTheTextbookWithinFp32Rounding) {
  constexpr std::size_t kCount = 64;
  const Rule& rule = GetParam();
  const CounterRng start(kSeed, 1);
  std::vector<Textbook> expected;
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
  const bool two = moments_of(rule) == 2;
  const kernels::StateSpan span{.weight = weight.data(),
                                .weight_type = DType::f32,
                                .first = first.data(),
                                .second = two ? second.data() : nullptr,
                                .gradient = gradient.data(),
                                .gradient_type = DType::f32,
                                .count = kCount};
  kernels::StateSpan split = span;
  split.weight = high.data();
  split.weight_type = DType::bf16;
  split.low = low.data();
  split.first = split_first.data();
  split.second = two ? split_second.data() : nullptr;
  kernels::ReferenceOptimizerOps ops;
  const kernels::StepScale scale;
  for (int t = 1; t <= 1000; ++t) {
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient[i] = gradient_of(i, t);
      std::visit([&](const auto& r) { expected[i].step(r, kRate, t, gradient[i]); }, rule);
    }
    const kernels::Step step = step_numbers(rule, kRate, t, true, kSeed);
    ops.update(span, step, &scale);
    ops.update(split, step, &scale);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    // A rounding of 2^-24 a step. (Most of it is that of the decay factor, the same every step.)
    EXPECT_NEAR(weight[i], expected[i].p, 1000 * 0x1p-24 * (1 + std::abs(expected[i].p)))
        << "index " << i << ", seed " << kSeed;
    EXPECT_NEAR(first[i], expected[i].m, 1e-5 * std::max(0.01, std::abs(expected[i].m)))
        << "index " << i;
    if (two) {
      EXPECT_NEAR(second[i] / expected[i].v, 1, 1e-5) << "index " << i;
    }
    EXPECT_EQ(weight[i], kernels::join_master(high[i], low[i])) << "index " << i;
    EXPECT_EQ(first[i], split_first[i]) << "index " << i;
    EXPECT_EQ(second[i], split_second[i]) << "index " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryRule,
                         testing::Values(AdamW{}, Adam{.weight_decay = 0.01}, Lion{},
                                         Sgd{.weight_decay = 0.01}, Sgd{.nesterov = true},
                                         Adagrad{.weight_decay = 0.01}),
                         [](const auto& info) {
                           return std::string(name_of(info.param)) + std::to_string(info.index);
                         });

class CompactFormat : public testing::TestWithParam<kernels::StateFormat> {};

// The promise: rounding at random is unbiased. After 1,000 steps the mean error of the moments is
// within its own standard error. (For two numbers in three, chance alone would allow that; these
// are the same ones in every run, of a size at which both formats hold: with other sizes int8 came
// to 1.8, bf16 with few elements to 1.2, and none grew with the size, as a bias would.) Moments do
// not depend on weights here, so what they should be is known.
TEST_P(CompactFormat, MeanErrorsOfTheMomentsStayWithinTheirStandardError) {
  constexpr std::size_t kCount = 256 * 128;
  const AdamW rule{.beta1 = 0.9, .beta2 = 0.99};
  const bool coded = GetParam() == kernels::StateFormat::int8;
  std::vector<float> weight(kCount), gradient(kCount);
  std::vector<bf16> first(kCount), second(kCount);
  std::vector<std::uint8_t> first_codes(kCount), second_codes(kCount), scales(2 * kCount / 128);
  std::vector<Textbook> expected(kCount);
  kernels::StateSpan span{.weight = weight.data(),
                          .weight_type = DType::f32,
                          .format = GetParam(),
                          .first = first.data(),
                          .second = second.data(),
                          .gradient = gradient.data(),
                          .gradient_type = DType::f32,
                          .count = kCount};
  if (coded) {
    span.first = first_codes.data();
    span.second = second_codes.data();
    span.scales = scales.data();
  }
  kernels::ReferenceOptimizerOps ops;
  const kernels::StepScale scale;
  for (int t = 1; t <= 1000; ++t) {
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient[i] = gradient_of(i, t);
      expected[i].step(rule, kRate, t, gradient[i]);
    }
    ops.update(span, step_numbers(rule, kRate, t, true, kSeed), &scale);
  }
  std::vector<float> m(kCount), v(kCount);
  widen_moments(span, m.data(), v.data());
  double first_sum = 0, first_squares = 0, second_sum = 0, second_squares = 0, step_error = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double m_error = m[i] - expected[i].m;
    const double v_error = v[i] / expected[i].v - 1;
    first_sum += m_error;
    first_squares += m_error * m_error;
    second_sum += v_error;
    second_squares += v_error * v_error;
    step_error += std::pow(weight[i] - expected[i].p, 2);
  }
  EXPECT_LT(std::abs(first_sum), std::sqrt(first_squares)) << "seed " << kSeed;
  EXPECT_LT(std::abs(second_sum), std::sqrt(second_squares)) << "seed " << kSeed;
  // The noise itself: relative to a second moment, and to the way a weight could go.
  EXPECT_LT(std::sqrt(second_squares / kCount), coded ? 0.25 : 0.06);
  EXPECT_LT(std::sqrt(step_error / kCount), (coded ? 0.03 : 0.004) * 1000 * kRate);
}

INSTANTIATE_TEST_SUITE_P(All, CompactFormat,
                         testing::Values(kernels::StateFormat::bf16, kernels::StateFormat::int8),
                         [](const auto& info) {
                           return std::string(kernels::name_of(info.param));
                         });

kernels::AdamWStep adamw_step(const AdamW& rule, double rate, std::int64_t step, bool decays) {
  return std::get<kernels::AdamWStep>(step_numbers(rule, rate, step, decays, kSeed));
}

TEST(Rules, AStepsNumbersAreRoundedOnce) {
  const AdamW adamw{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1};
  const kernels::AdamWStep step = adamw_step(adamw, 3e-4, 1, true);
  EXPECT_EQ(step.beta1, 0.9f);
  EXPECT_EQ(step.one_minus_beta1, static_cast<float>(1.0 - 0.9));
  EXPECT_EQ(step.square_factor, static_cast<float>((1.0 - 0.999) / ((1.0 - 0.9) * (1.0 - 0.9))));
  EXPECT_FLOAT_EQ(step.root_factor, 31.6227766f / 3e-3f);  // the step's size is 3e-3
  EXPECT_FLOAT_EQ(step.epsilon, 1e-8f / 3e-3f);
  EXPECT_EQ(step.decay_factor, static_cast<float>(1.0 - 3e-4 * 0.1));
  EXPECT_EQ(adamw_step(adamw, 3e-4, 1, false).decay_factor, 1.0f);
  EXPECT_FLOAT_EQ(adamw_step(adamw, 3e-4, 1'000'000, true).root_factor, 1 / 3e-4f);
}

TEST(Rules, WhatDoesNotDecayHasADecayOfNothing) {
  const auto numbers = [](const Rule& rule) { return step_numbers(rule, 0.1, 1, false, kSeed); };
  EXPECT_EQ(std::get<kernels::LionStep>(numbers(Lion{.weight_decay = 1})).decay_factor, 1.0f);
  EXPECT_EQ(std::get<kernels::AdamStep>(numbers(Adam{.weight_decay = 1})).decay, 0.0f);
  EXPECT_EQ(std::get<kernels::SgdStep>(numbers(Sgd{.weight_decay = 1})).decay, 0.0f);
  EXPECT_EQ(std::get<kernels::AdagradStep>(numbers(Adagrad{.weight_decay = 1})).decay, 0.0f);
}

TEST(Rules, EveryThirtySecondStepDropsDenormals) {
  for (const char* name : {"adamw", "adam", "lion", "sgd", "adagrad"}) {
    const auto drops = [&](std::int64_t step) {
      return kernels::drops_denormals(step_numbers(parse_rule(name), 0.1, step, true, kSeed));
    };
    EXPECT_TRUE(drops(32)) << name;
    EXPECT_TRUE(drops(640)) << name;
    EXPECT_FALSE(drops(1)) << name;
    EXPECT_FALSE(drops(33)) << name;
  }
}

TEST(Rules, EveryStepAndSeedRoundsWithAnotherKey) {
  const auto key = [](std::int64_t step, std::uint64_t seed) {
    return std::get<kernels::AdamWStep>(step_numbers(AdamW{}, 0.1, step, true, seed)).rounding_key;
  };
  EXPECT_NE(key(1, 1), key(2, 1));
  EXPECT_NE(key(1, 1), key(1, 2));
  EXPECT_NE(key(1, 2), key(2, 1));
  EXPECT_EQ(key(3, 4), key(3, 4));
}

TEST(Rules, BetasOfZeroAreAllowed) {
  const kernels::AdamWStep step = adamw_step({.beta1 = 0, .beta2 = 0}, 0.5, 1, true);
  EXPECT_EQ(step.square_factor, 1.0f);
  EXPECT_EQ(step.root_factor, 2.0f);
}

// A rate of zero, at a warm-up's start, and rates so small that their inverse is no float.
TEST(Rules, WithoutARateNothingMoves) {
  for (const double rate : {0.0, -0.0, 1e-300, 1e-42}) {
    const kernels::AdamWStep step = adamw_step({.epsilon = 1e-8}, rate, 1, false);
    EXPECT_EQ(step.epsilon, std::numeric_limits<float>::infinity()) << rate;
    EXPECT_EQ(step.root_factor, 1.0f) << rate;
  }
  EXPECT_LT(adamw_step({}, 1e-30, 1, false).epsilon, 1e30f);
  EXPECT_GT(adamw_step({.epsilon = 2e-38}, 1e9, 1, false).epsilon, 0.0f);
}

TEST(Rules, NamesGoBothWays) {
  for (const char* name : {"adamw", "adam", "lion", "sgd", "adagrad"}) {
    EXPECT_EQ(name_of(parse_rule(name)), name);
    EXPECT_NO_THROW(validate(parse_rule(name)));
    EXPECT_EQ(moments_of(parse_rule(name)),
              kernels::moments_of(step_numbers(parse_rule(name), 0.1, 1, true, 0)));
  }
  for (const char* name : {"exact", "bf16", "int8"}) {
    EXPECT_EQ(kernels::name_of(parse_state_format(name)), name);
  }
  EXPECT_THROW(parse_rule("adamax"), ConfigError);
  EXPECT_THROW(parse_state_format("int4"), ConfigError);
}

TEST(Rules, CompactFormatsAreForAdamW) {
  EXPECT_NO_THROW(validate(AdamW{}, kernels::StateFormat::int8));
  EXPECT_NO_THROW(validate(Lion{}, kernels::StateFormat::exact));
  EXPECT_THROW(validate(Lion{}, kernels::StateFormat::bf16), ConfigError);
  EXPECT_THROW(validate(Adam{}, kernels::StateFormat::int8), ConfigError);
}

void expect_refused(const Rule& rule, const std::string& flag) {
  try {
    validate(rule);
    FAIL() << "accepted a wrong " << flag;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(flag + " "), std::string::npos) << error.what();
  }
}

TEST(Rules, RefusalsNameTheFlag) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {1.0, -0.1, kNan}) {
    expect_refused(AdamW{.beta1 = bad}, "--beta1");
    expect_refused(AdamW{.beta2 = bad}, "--beta2");
    expect_refused(Adam{.beta1 = bad}, "--beta1");
    expect_refused(Lion{.beta2 = bad}, "--beta2");
    expect_refused(Sgd{.momentum = bad}, "--momentum");
  }
  for (const double bad : {0.0, 1e-46, -1e-8, kNan}) {
    expect_refused(AdamW{.epsilon = bad}, "--epsilon");
    expect_refused(Adagrad{.epsilon = bad}, "--epsilon");
  }
  for (const double bad : {-1.0, kNan}) {
    expect_refused(AdamW{.weight_decay = bad}, "--weight-decay");
    expect_refused(Sgd{.weight_decay = bad}, "--weight-decay");
  }
}

}  // namespace
}  // namespace ebb::states
