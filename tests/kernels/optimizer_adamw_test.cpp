#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "adamw_cases.h"
#include "ebb/error.h"
#include "kernels/cpu/optimizer_ops.h"
#include "kernels/optimizer_ops.h"
#include "kernels/reference/optimizer_ops.h"

namespace ebb::kernels {
namespace {

using namespace optimizer_cases;

// Steps the reference and, beside it, one CPU state for every instruction set and pool, and
// compares all of them after every step.
void compare(const Shape& shape, int steps, const std::vector<int>& threads, std::uint64_t seed) {
  State expected(shape, seed);
  struct Variant {
    std::int64_t target;
    std::unique_ptr<ThreadPool> pool;
    State state;
  };
  std::vector<Variant> variants;
  for (const std::int64_t target : targets()) {
    for (const int count : threads) {
      variants.push_back({target, std::make_unique<ThreadPool>(count), State(shape, seed)});
    }
  }
  Array gradient(shape.gradient_type, shape.count, shape.offset);
  for (int step = 1; step <= steps; ++step) {
    gradient.fill(seed, 100 + static_cast<std::uint64_t>(step), 1e-2);
    const StepScale scale{step % 3 == 0 ? 1.0f : 0.37f, 1};
    ReferenceOptimizerOps().adamw(expected.span(gradient), numbers(step), &scale);
    for (Variant& variant : variants) {
      const OnlyTarget only(variant.target);
      CpuOptimizerOps(*variant.pool).adamw(variant.state.span(gradient), numbers(step), &scale);
      ASSERT_EQ(difference(expected, variant.state), "") << fmt::format(
          "{}, {} threads, {} weights, {} gradients, {} elements + {}, step {}, seed {}",
          hwy::TargetName(variant.target), variant.pool->slots(), name_of(shape.weight_type),
          name_of(shape.gradient_type), shape.count, shape.offset, step, seed);
    }
  }
}

class AdamWTypes : public testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  Shape shape(std::int64_t count, std::int64_t offset) const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), count, offset};
  }
};

// The promise: the update is bit-identical on every instruction set and thread count.
TEST_P(AdamWTypes, SmallSizesEqualTheReference) {
  for (std::int64_t count = 0; count <= 129; ++count) {
    compare(shape(count, count % 5), 50, {1}, static_cast<std::uint64_t>(count));
    if (HasFatalFailure()) return;
  }
}

TEST_P(AdamWTypes, LargePrimesEqualTheReferenceAtAnyThreadCount) {
  for (const std::int64_t count : {32771, 65537, 131101}) {
    compare(shape(count, 3), 3, {1, 2, 3}, 7);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdamWTypes,
                         testing::Combine(testing::Values(DType::bf16, DType::f32),
                                          testing::Values(DType::bf16, DType::f32)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

class AdamWOps : public testing::TestWithParam<bool> {
 protected:
  OptimizerOps& ops() { return GetParam() ? static_cast<OptimizerOps&>(cpu_) : reference_; }

 private:
  ThreadPool pool_{2};
  CpuOptimizerOps cpu_{pool_};
  ReferenceOptimizerOps reference_;
};

TEST_P(AdamWOps, ANormThatIsNotFiniteTouchesNothing) {
  const Shape shape{DType::bf16, DType::bf16, 40009, 1};
  State state(shape, 3);
  const State before = state;
  Array gradient(DType::bf16, shape.count, shape.offset);
  gradient.fill(3, 5, 1.0);
  const StepScale scale{0.5f, 0};
  ops().adamw(state.span(gradient), numbers(1), &scale);
  EXPECT_EQ(state.weight.bytes(), before.weight.bytes());
  EXPECT_EQ(state.low.bytes(), before.low.bytes());
  EXPECT_EQ(state.first.bytes(), before.first.bytes());
  EXPECT_EQ(state.second.bytes(), before.second.bytes());
}

// Hand-made numbers, all exact in fp32, so that the specification has a test of its own.
TEST_P(AdamWOps, OneStepByHand) {
  float weight = 2.0f, first = 0.5f, second = 0.0625f;
  const float gradient = 4.0f;
  StateSpan span;
  span.weight = &weight;
  span.weight_type = DType::f32;
  span.first = &first;
  span.second = &second;
  span.gradient = &gradient;
  span.gradient_type = DType::f32;
  span.count = 1;
  AdamWStep step;
  step.beta1 = 0.5f;
  step.one_minus_beta1 = 0.5f;
  step.beta2 = 0.0f;
  step.one_minus_beta2 = 0.25f;
  step.inverse_root_correction2 = 0.5f;
  step.epsilon = 0.125f;
  step.step_size = 0.25f;
  step.decay_factor = 0.75f;
  const StepScale scale{0.5f, 1};
  ops().adamw(span, step, &scale);
  EXPECT_EQ(first, 1.25f);  // 0.5 * 0.5 + 0.5 * 2
  EXPECT_EQ(second, 1.0f);  // 0 + 0.25 * 4
  EXPECT_EQ(weight, 1.0f);  // 2 * 0.75 - 0.25 * (1.25 / (1 * 0.5 + 0.125))
}

TEST_P(AdamWOps, RefusesTypesItDoesNotKnow) {
  StateSpan span;
  span.weight_type = DType::i32;
  const StepScale scale;
  EXPECT_THROW(ops().adamw(span, numbers(1), &scale), ConfigError);
  EXPECT_THROW(ops().add_gradient(nullptr, nullptr, DType::i16, 0), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(All, AdamWOps, testing::Bool(),
                         [](const auto& info) { return info.param ? "cpu" : "reference"; });

}  // namespace
}  // namespace ebb::kernels
