#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string_view>

#include "ebb/error.h"
#include "kernels/cpu/optimizer_ops.h"
#include "kernels/optimizer_ops.h"
#include "kernels/reference/optimizer_ops.h"
#include "scale.h"
#include "update_cases.h"

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
    fill(gradient, shape.numbers, seed, 100 + static_cast<std::uint64_t>(step), 1e-2);
    const StepScale scale{step % 3 == 0 ? 1.0f : 0.37f, 1};
    const Step numbers = shape.kind.numbers(step);
    ReferenceOptimizerOps().update(expected.span(gradient), numbers, &scale);
    for (Variant& variant : variants) {
      const OnlyTarget only(variant.target);
      CpuOptimizerOps(*variant.pool).update(variant.state.span(gradient), numbers, &scale);
      ASSERT_EQ(difference(expected, variant.state), "")
          << fmt::format("{}, {} threads, {}, step {}, seed {}", hwy::TargetName(variant.target),
                         variant.pool->slots(), shape.text(), step, seed);
    }
  }
}

class Updates : public testing::TestWithParam<std::tuple<Kind, DType, DType>> {
 protected:
  Shape shape(std::int64_t count, std::int64_t offset, Numbers numbers) const {
    const auto& [kind, weight, gradient] = GetParam();
    return {kind, weight, gradient, count, offset, numbers};
  }
};

// Under sanitizers, which make every step dear.
int many_steps() { return small_scale() ? 4 : 50; }

// The promise: the update is bit-identical on every instruction set and thread count.
TEST_P(Updates, SmallSizesEqualTheReference) {
  for (std::int64_t count = 0; count <= 129; ++count) {
    compare(shape(count, count % 5, count % 3 == 0 ? Numbers::any : Numbers::tame), many_steps(),
            {1}, static_cast<std::uint64_t>(count));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Updates, LargePrimesEqualTheReferenceAtAnyThreadCount) {
  for (const std::int64_t count : {32771, 65537, 131101}) {
    if (small_scale() && count == 131101) continue;
    for (const Numbers numbers : {Numbers::any, Numbers::tame}) {
      const OnlyFetching fetching(count == 65537);
      compare(shape(count, 3, numbers), 3, {1, 2, 3}, 7);
      if (HasFatalFailure()) return;
    }
  }
}

// One state an instruction set, whose steps run on one thread, then on two, three and five.
TEST_P(Updates, ManyStepsOfALargePrimeEqualTheReferenceAtChangingThreadCounts) {
  const std::vector<std::int64_t> levels = targets();  // OnlyTarget changes what it returns
  const Shape whole = shape(33013, 1, Numbers::tame);
  constexpr std::uint64_t kSeed = 9;
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (const int threads : {1, 2, 3, 5}) pools.push_back(std::make_unique<ThreadPool>(threads));
  State expected(whole, kSeed);
  std::vector<State> found(levels.size(), expected);
  Array gradient(whole.gradient_type, whole.count, whole.offset);
  for (int step = 1; step <= many_steps(); ++step) {
    fill(gradient, Numbers::tame, kSeed, 100 + static_cast<std::uint64_t>(step), 1e-2);
    const StepScale scale{step % 3 == 0 ? 1.0f : 0.37f, 1};
    const Step numbers = whole.kind.numbers(step);
    ReferenceOptimizerOps().update(expected.span(gradient), numbers, &scale);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const OnlyTarget only(levels[i]);
      ThreadPool& pool = *pools[static_cast<std::size_t>(step) % pools.size()];
      CpuOptimizerOps(pool).update(found[i].span(gradient), numbers, &scale);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(difference(expected, found[i]), "") << fmt::format(
        "{}, {}, {} steps, seed {}", hwy::TargetName(levels[i]), whole.text(), many_steps(), kSeed);
  }
}

// The promise: chunks do not show. Cuts are where those of the norm's blocks may be.
TEST_P(Updates, CutsChangeNothing) {
  const Shape whole = shape(5 * kNormBlock + 77, 1, Numbers::tame);
  State expected(whole, 5);
  State found(whole, 5);
  Array gradient(whole.gradient_type, whole.count, whole.offset);
  const StepScale scale;
  ThreadPool pool(2);
  CpuOptimizerOps ops(pool);
  for (int step = 1; step <= 3; ++step) {
    fill(gradient, Numbers::tame, 5, 100 + static_cast<std::uint64_t>(step), 1e-2);
    ops.update(expected.span(gradient), whole.kind.numbers(step), &scale);
    const std::int64_t length = step * kNormBlock;
    for (std::int64_t start = 0; start < whole.count; start += length) {
      const StateSpan part =
          part_of(found.span(gradient), start, std::min(length, whole.count - start));
      ops.update(part, whole.kind.numbers(step), &scale);
    }
    ASSERT_EQ(difference(expected, found), "") << whole.text() << ", step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Updates,
                         testing::Combine(testing::ValuesIn(kinds()),
                                          testing::Values(DType::bf16, DType::f32),
                                          testing::Values(DType::bf16, DType::f32)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::string(name_of(std::get<1>(info.param))) + "_" +
                                  std::string(name_of(std::get<2>(info.param)));
                         });

class UpdateOps : public testing::TestWithParam<bool> {
 protected:
  OptimizerOps& ops() { return GetParam() ? static_cast<OptimizerOps&>(cpu_) : reference_; }

  // One fp32 parameter and gradient, moments of the rule, and one step with a scale of a half.
  struct One {
    float weight, first, second;
  };
  One after(One start, float gradient, const Step& step) {
    StateSpan span;
    span.weight = &start.weight;
    span.weight_type = DType::f32;
    span.first = &start.first;
    if (moments_of(step) == 2) span.second = &start.second;
    span.gradient = &gradient;
    span.gradient_type = DType::f32;
    span.count = 1;
    const StepScale scale{0.5f, 1};
    ops().update(span, step, &scale);
    return start;
  }

 private:
  ThreadPool pool_{2};
  CpuOptimizerOps cpu_{pool_};
  ReferenceOptimizerOps reference_;
};

// The promise: a call with many spans does to each what a call of its own would.
TEST_P(UpdateOps, ManySpansInOneCallEqualTheReferenceOneByOne) {
  const std::vector<Shape> shapes = mixed_shapes();
  std::deque<State> expected, found;
  std::deque<Array> gradients;
  std::vector<SpanUpdate> updates;
  const StepScale scale{0.37f, 1};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = shapes[i];
    expected.emplace_back(shape, i);
    found.emplace_back(shape, i);
    Array& gradient = gradients.emplace_back(shape.gradient_type, shape.count, shape.offset);
    fill(gradient, shape.numbers, i, 100, 1e-2);
    const auto numbered = [&](StateSpan span) {
      span.tensor_key = i;
      return span;
    };
    ReferenceOptimizerOps().update(numbered(expected.back().span(gradient)), mixed_step(shape, i),
                                   &scale);
    updates.push_back({numbered(found.back().span(gradient)), mixed_step(shape, i)});
  }
  ops().update_spans(updates, &scale);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(difference(expected[i], found[i]), "") << "span " << i << ": " << shapes[i].text();
  }
}

TEST_P(UpdateOps, OneSpanThatIsRefusedLeavesTheOthersUntouched) {
  State state({kinds()[0], DType::bf16, DType::bf16, 300, 0, Numbers::tame}, 1);
  const State before = state;
  Array gradient(DType::bf16, 300, 0);
  fill(gradient, Numbers::tame, 1, 100, 1e-2);
  SpanUpdate bad{state.span(gradient), AdamWStep{}};
  bad.span.low = nullptr;
  const SpanUpdate both[] = {{state.span(gradient), AdamWStep{}}, bad};
  const StepScale scale;
  EXPECT_THROW(ops().update_spans(both, &scale), ConfigError);
  EXPECT_EQ(difference(before, state), "");
}

TEST_P(UpdateOps, ANormThatIsNotFiniteTouchesNothing) {
  for (const Kind& kind : kinds()) {
    const Shape shape{kind, DType::bf16, DType::bf16, 40009, 1};
    State state(shape, 3);
    const State before = state;
    Array gradient(DType::bf16, shape.count, shape.offset);
    gradient.fill(3, 5, 1.0);
    const StepScale scale{0.5f, 0};
    ops().update(state.span(gradient), kind.numbers(1), &scale);
    EXPECT_EQ(state.weight.bytes(), before.weight.bytes()) << kind.name;
    EXPECT_EQ(state.low.bytes(), before.low.bytes()) << kind.name;
    EXPECT_EQ(state.first.bytes(), before.first.bytes()) << kind.name;
    EXPECT_EQ(state.second.bytes(), before.second.bytes()) << kind.name;
    EXPECT_EQ(state.first_codes.bytes, before.first_codes.bytes) << kind.name;
    EXPECT_EQ(state.second_codes.bytes, before.second_codes.bytes) << kind.name;
    EXPECT_EQ(state.scales.bytes, before.scales.bytes) << kind.name;
  }
}

// Hand-made numbers, all exact in fp32, so that the specification has a test of its own. The
// gradient is 4, the scale a half: g is 2, and AdamW's with 1 - beta1 is 1.
TEST_P(UpdateOps, AdamWByHand) {
  const AdamWStep step{.beta1 = 0.5f,
                       .one_minus_beta1 = 0.5f,
                       .beta2 = 0.0f,
                       .square_factor = 1.0f,
                       .root_factor = 2.0f,
                       .epsilon = 0.5f,
                       .decay_factor = 0.75f};
  const One one = after({2.0f, 0.5f, 0.0625f}, 4.0f, step);
  EXPECT_EQ(one.first, 1.25f);  // 0.5 * 0.5 + 1
  EXPECT_EQ(one.second, 1.0f);  // 0 + 1 * 1
  EXPECT_EQ(one.weight, 1.0f);  // 2 * 0.75 - 1.25 / (1 * 2 + 0.5)
}

// Around the least normal number, 0x1p-126, and without a gradient. Of the least denormal nine
// tenths are itself again.
TEST_P(UpdateOps, StepsThatDropDenormalsMakeThemZeros) {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (const bool drops : {true, false}) {
    const AdamWStep step{.beta1 = 0.9f, .beta2 = 0.9f, .drops_denormals = drops};
    for (const float moment : {0x1.2p-126f, 0x1.1p-126f, -0x1.1p-126f, 0x1p-149f, -0x1p-149f}) {
      const One one = after({2.0f, moment, std::abs(moment)}, 0.0f, step);
      const float next = 0.9f * moment;
      const bool stays = moment == 0x1.2p-126f || !drops;
      EXPECT_EQ(bits(one.first), bits(stays ? next : 0.0f)) << moment;
      EXPECT_EQ(bits(one.second), bits(stays ? std::abs(next) : 0.0f)) << moment;
    }
    const SgdStep momentum{.momentum = 0.5f, .drops_denormals = drops};
    EXPECT_EQ(after({2.0f, 0x1.8p-126f, 0}, 0.0f, momentum).first, drops ? 0.0f : 0x1.8p-127f);
  }
}

TEST_P(UpdateOps, AdamByHand) {
  const AdamStep step{.beta1 = 0.5f,
                      .one_minus_beta1 = 0.5f,
                      .beta2 = 0.0f,
                      .square_factor = 1.0f,
                      .root_factor = 2.0f,
                      .epsilon = 4.0f,
                      .decay = 1.0f};
  const One one = after({2.0f, 1.0f, 0.0625f}, 4.0f, step);  // h = 0.5 * (1 * 2 + 2) = 2
  EXPECT_EQ(one.first, 2.5f);
  EXPECT_EQ(one.second, 4.0f);
  EXPECT_EQ(one.weight, 2.0f - 0.3125f);  // 2.5 / (2 * 2 + 4)
}

TEST_P(UpdateOps, LionByHand) {
  const LionStep step{.beta1 = 0.5f,
                      .one_minus_beta1 = 0.5f,
                      .beta2 = 0.75f,
                      .one_minus_beta2 = 0.25f,
                      .rate = 0.25f,
                      .decay_factor = 0.5f};
  EXPECT_EQ(after({2.0f, 1.0f, 0}, 4.0f, step).weight, 0.75f);   // u = 1.5: 1 - 0.25
  EXPECT_EQ(after({2.0f, -4.0f, 0}, 4.0f, step).weight, 1.25f);  // u = -1
  EXPECT_EQ(after({2.0f, -2.0f, 0}, 4.0f, step).weight, 1.0f);   // u = 0
  EXPECT_EQ(after({2.0f, 1.0f, 0}, 4.0f, step).first, 1.25f);    // 0.75 * 1 + 0.25 * 2
}

TEST_P(UpdateOps, SgdByHand) {
  SgdStep step{.momentum = 0.5f, .rate = 0.25f, .decay = 1.0f};
  EXPECT_EQ(after({2.0f, 2.0f, 0}, 4.0f, step).first, 5.0f);  // 0.5 * 2 + (2 + 2)
  EXPECT_EQ(after({2.0f, 2.0f, 0}, 4.0f, step).weight, 2.0f - 0.25f * 5.0f);
  step.nesterov = true;
  EXPECT_EQ(after({2.0f, 2.0f, 0}, 4.0f, step).weight, 2.0f - 0.25f * 6.5f);  // 0.5 * 5 + 4
}

TEST_P(UpdateOps, AdagradByHand) {
  const AdagradStep step{.rate = 0.25f, .epsilon = 3.0f, .decay = 1.0f};
  const One one = after({2.0f, 9.0f, 0}, 4.0f, step);  // h = 4
  EXPECT_EQ(one.first, 25.0f);
  EXPECT_EQ(one.weight, 2.0f - 0.25f * 0.5f);  // 4 / (5 + 3)
}

TEST_P(UpdateOps, RefusesWhatItDoesNotKnow) {
  const StepScale scale;
  StateSpan types;
  types.weight_type = DType::i32;
  EXPECT_THROW(ops().update(types, AdamWStep{}, &scale), ConfigError);
  EXPECT_THROW(ops().add_gradient(nullptr, nullptr, DType::i16, 0), ConfigError);

  State state({kinds()[2], DType::bf16, DType::bf16, 256, 0}, 1);
  Array gradient(DType::bf16, 256, 0);
  const StateSpan good = state.span(gradient);
  EXPECT_NO_THROW(ops().update(good, AdamWStep{}, &scale));
  EXPECT_THROW(ops().update(good, AdamStep{}, &scale), ConfigError);  // compact, not AdamW
  StateSpan bad = good;
  bad.first_element += 64;
  EXPECT_THROW(ops().update(bad, AdamWStep{}, &scale), ConfigError);
  bad = good;
  bad.scales = nullptr;
  EXPECT_THROW(ops().update(bad, AdamWStep{}, &scale), ConfigError);
  bad = good;
  bad.second = nullptr;
  EXPECT_THROW(ops().update(bad, AdamWStep{}, &scale), ConfigError);
  bad = good;
  bad.low = nullptr;
  EXPECT_THROW(ops().update(bad, AdamWStep{}, &scale), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(All, UpdateOps, testing::Bool(),
                         [](const auto& info) { return info.param ? "cpu" : "reference"; });

}  // namespace
}  // namespace ebb::kernels
