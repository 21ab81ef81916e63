#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/optimizer_ops.h"
#include "kernels/reference/optimizer_ops.h"
#include "optimizer_cases.h"

namespace ebb::kernels {
namespace {

using namespace optimizer_cases;

std::string difference(const Array& expected, const Array& found) {
  for (std::int64_t i = 0; i < expected.whole(); ++i) {
    if (same_number(expected.at(i), found.at(i))) continue;
    return fmt::format("element {} of the guarded array: expected {} ({:08x}), found {} ({:08x})",
                       i, expected.at(i), std::bit_cast<std::uint32_t>(expected.at(i)), found.at(i),
                       std::bit_cast<std::uint32_t>(found.at(i)));
  }
  return "";
}

std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> result;
  for (std::int64_t count = 0; count <= 129; ++count) result.push_back(count);
  for (const std::int64_t prime : {4093, 4099, 32771, 131101}) result.push_back(prime);
  return result;
}

std::string about(std::int64_t target, int threads, DType a, DType b, std::int64_t count) {
  return fmt::format("{}, {} threads, {} and {}, {} elements, seed = elements",
                     hwy::TargetName(target), threads, name_of(a), name_of(b), count);
}

class OptimizerGradients : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool_{GetParam()};
  CpuOptimizerOps cpu_{pool_};
  ReferenceOptimizerOps reference_;
};

TEST_P(OptimizerGradients, SumsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const std::int64_t count : sizes()) {
      const auto seed = static_cast<std::uint64_t>(count);
      Array gradient(type, count, count % 5);
      gradient.fill(seed, 1, 1.0);
      Array start(DType::f32, count, count % 3);
      start.fill(seed, 2, 1.0);
      Array expected = start;
      reference_.add_gradient(expected.as<float>(), gradient.data(), type, count);
      for (const std::int64_t target : targets()) {
        const OnlyTarget only(target);
        Array found = start;
        cpu_.add_gradient(found.as<float>(), gradient.data(), type, count);
        ASSERT_EQ(difference(expected, found), "")
            << about(target, GetParam(), DType::f32, type, count);
      }
    }
  }
}

// The sum of the first two is what adding both to zeros makes, signs of zeros included.
TEST_P(OptimizerGradients, SumsOfTheFirstTwoEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const std::int64_t count : sizes()) {
      const auto seed = static_cast<std::uint64_t>(count);
      Array first(type, count, count % 5), second(type, count, count % 7);
      first.fill(seed, 1, 1.0);
      second.fill(seed, 2, 1.0);
      for (std::int64_t i = 0; i < count; i += 11) {
        if (type == DType::f32) {
          first.as<float>()[i] = second.as<float>()[i] = -0.0f;
        } else {
          first.as<bf16>()[i] = second.as<bf16>()[i] = bf16{0x8000};
        }
      }
      Array zeros(DType::f32, count, count % 3);
      std::fill_n(zeros.as<float>(), count, 0.0f);
      Array expected = zeros;
      reference_.add_gradient(expected.as<float>(), first.data(), type, count);
      reference_.add_gradient(expected.as<float>(), second.data(), type, count);
      Array at_once = zeros;
      reference_.add_two_gradients(at_once.as<float>(), first.data(), second.data(), type, count);
      ASSERT_EQ(difference(expected, at_once), "") << name_of(type) << ", " << count;
      for (const std::int64_t target : targets()) {
        const OnlyTarget only(target);
        Array found = zeros;
        cpu_.add_two_gradients(found.as<float>(), first.data(), second.data(), type, count);
        ASSERT_EQ(difference(expected, found), "") << about(target, GetParam(), type, type, count);
      }
    }
  }
}

// Four gradients one after the other into planes end as in one fp32 sum, signs of zeros and NaN
// included; two wait as they came until the third makes halves of them.
TEST_P(OptimizerGradients, SumsInPlanesAreTheWholeOnes) {
  for (const std::int64_t count : sizes()) {
    const auto seed = static_cast<std::uint64_t>(count);
    std::vector<Array> gradients;
    for (std::uint64_t g = 0; g < 5; ++g) {
      gradients.emplace_back(DType::bf16, count, count % static_cast<std::int64_t>(g + 2));
      gradients.back().fill(seed, g + 1, g % 2 == 0 ? 1.0 : 1e-3);
      for (std::int64_t i = 0; i < count; i += 11) gradients.back().as<bf16>()[i] = bf16{0x8000};
      for (std::int64_t i = 5; i < count; i += 97) gradients.back().as<bf16>()[i] = bf16{0x7fc0};
    }
    for (std::size_t last = 2; last < gradients.size(); ++last) {
      Array sum(DType::f32, count, 0);
      reference_.add_two_gradients(sum.as<float>(), gradients[0].data(), gradients[1].data(),
                                   DType::bf16, count);
      for (std::size_t g = 2; g < last; ++g) {
        reference_.add_gradient(sum.as<float>(), gradients[g].data(), DType::bf16, count);
      }
      Array finished = gradients[last], expected = gradients[0];  // in the first one's place
      reference_.finish_gradient(finished.data(), DType::bf16, sum.data(), DType::f32, count);
      std::copy_n(finished.as<bf16>(), count, expected.as<bf16>());
      const auto by_planes = [&](OptimizerOps& ops) {
        Array high = gradients[0], low = gradients[1];
        SumPlanes planes{high.as<std::uint16_t>(), low.as<std::uint16_t>(), true};
        for (std::size_t g = 2; g < last; ++g) {
          ops.add_to_planes(planes, gradients[g].as<bf16>(), count);
          planes.two_gradients = false;
        }
        const Array halves = low;
        ops.finish_planes(planes, gradients[last].as<bf16>(), count);
        EXPECT_EQ(difference(halves, low), "") << "the lower plane is only read";
        return high;
      };
      ASSERT_EQ(difference(expected, by_planes(reference_)), "") << last << ", " << count;
      for (const std::int64_t target : targets()) {
        const OnlyTarget only(target);
        ASSERT_EQ(difference(expected, by_planes(cpu_)), "")
            << about(target, GetParam(), DType::bf16, DType::bf16, count) << ", " << last;
      }
    }
  }
}

TEST_P(OptimizerGradients, FinishedGradientsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const DType sum_type : {DType::bf16, DType::f32}) {
      for (const std::int64_t count : sizes()) {
        const auto seed = static_cast<std::uint64_t>(count);
        Array sum(sum_type, count, count % 5);
        sum.fill(seed, 1, 1.0);
        Array start(type, count, count % 3);
        start.fill(seed, 2, 1.0);
        Array expected = start;
        reference_.finish_gradient(expected.data(), type, sum.data(), sum_type, count);
        for (const std::int64_t target : targets()) {
          const OnlyTarget only(target);
          Array found = start;
          cpu_.finish_gradient(found.data(), type, sum.data(), sum_type, count);
          ASSERT_EQ(difference(expected, found), "")
              << about(target, GetParam(), type, sum_type, count);
        }
      }
    }
  }
}

TEST_P(OptimizerGradients, SquareSumsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const std::int64_t count : sizes()) {
      Array gradient(type, count, count % 5);
      gradient.fill(static_cast<std::uint64_t>(count), 1, 1.0);
      // Finite ones too: a single NaN would hide all else of its block.
      Array tame(type, count, count % 5);
      const CounterRng rng(static_cast<std::uint64_t>(count), 2);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(rng.normal(static_cast<std::uint64_t>(i)));
        if (type == DType::f32) {
          tame.as<float>()[i] = value;
        } else {
          tame.as<bf16>()[i] = to_bf16(value);
        }
      }
      for (Array* values : {&gradient, &tame}) {
        const auto blocks = static_cast<std::size_t>(norm_blocks(count));
        std::vector<double> expected(blocks + 1, -1.0);
        reference_.square_sums(expected.data(), values->data(), type, count);
        for (const std::int64_t target : targets()) {
          const OnlyTarget only(target);
          std::vector<double> found(blocks + 1, -1.0);
          cpu_.square_sums(found.data(), values->data(), type, count);
          for (std::size_t i = 0; i <= blocks; ++i) {
            ASSERT_TRUE(same_number(expected[i], found[i]))
                << about(target, GetParam(), type, type, count) << ": partial " << i
                << ": expected " << expected[i] << ", found " << found[i];
          }
        }
      }
    }
  }
}

// Parts of all sizes in one call, some of them whole already.
TEST_P(OptimizerGradients, FinishedPartsEqualTheReference) {
  const std::vector<std::int64_t> counts = {1, 0, 4096, 600011, 129, 40000, 4099, 17, 0};
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const DType sum_type : {DType::bf16, DType::f32}) {
      for (const std::int64_t target : targets()) {
        const OnlyTarget only(target);
        std::vector<Array> expected, found, sums;
        std::vector<GradientPart> wanted, made;
        std::int64_t blocks = 0;
        for (const std::int64_t count : counts) blocks += norm_blocks(count);
        std::vector<double> squares(static_cast<std::size_t>(blocks + 1), -1.0);
        std::vector<double> found_squares = squares;
        expected.reserve(counts.size());
        found.reserve(counts.size());
        sums.reserve(counts.size());
        blocks = 0;
        for (std::size_t p = 0; p < counts.size(); ++p) {
          const auto offset = static_cast<std::int64_t>(p % 5);
          expected.emplace_back(type, counts[p], offset).fill(p, 1, 1.0);
          sums.emplace_back(sum_type, counts[p], offset % 3).fill(p, 2, 1.0);
          // Finite ones too: a single NaN would hide all else of its block.
          const CounterRng rng(p, 3);
          for (std::int64_t i = 0; p % 2 == 1 && i < counts[p] + 5; ++i) {
            const auto value = static_cast<float>(rng.normal(static_cast<std::uint64_t>(i)));
            if (i < expected.back().whole()) expected.back().set(i, value);
            if (i < sums.back().whole()) sums.back().set(i, 0.5f);
          }
          found.push_back(expected.back());
          const void* const sum = p % 3 == 2 ? nullptr : sums.back().data();
          wanted.push_back({expected.back().data(), sum, squares.data() + blocks, counts[p]});
          made.push_back({found.back().data(), sum, found_squares.data() + blocks, counts[p]});
          blocks += norm_blocks(counts[p]);
        }
        reference_.finish_parts(wanted, type, sum_type);
        cpu_.finish_parts(made, type, sum_type);
        for (std::size_t p = 0; p < counts.size(); ++p) {
          ASSERT_EQ(difference(expected[p], found[p]), "")
              << about(target, GetParam(), type, sum_type, counts[p]);
        }
        for (std::size_t i = 0; i < squares.size(); ++i) {
          ASSERT_TRUE(same_number(squares[i], found_squares[i]))
              << about(target, GetParam(), type, sum_type, 0) << "partial " << i;
        }
      }
    }
  }
}

// Sums in planes too, over parts of several pieces.
TEST_P(OptimizerGradients, FinishedPartsInPlanesEqualTheReference) {
  const std::vector<std::int64_t> counts = {1, 0, 4096, 600011, 129, 40000, 17};
  for (const bool two_gradients : {true, false}) {
    for (const std::int64_t target : targets()) {
      const OnlyTarget only(target);
      for (std::size_t p = 0; p < counts.size(); ++p) {
        const std::int64_t count = counts[p];
        Array high(DType::bf16, count, static_cast<std::int64_t>(p % 5));
        Array low = high, last = high;
        for (std::int64_t i = 0; i < high.whole(); ++i) {
          const CounterRng rng(p, 7);
          const auto at = static_cast<std::uint64_t>(3 * i);
          high.set(i, static_cast<float>(rng.normal(at)));
          low.set(i, static_cast<float>(rng.normal(at + 1)));
          last.set(i, static_cast<float>(rng.normal(at + 2)));
        }
        Array found = high;
        const Array halves = low;
        std::vector<double> squares(static_cast<std::size_t>(norm_blocks(count) + 1), -1.0);
        std::vector<double> found_squares = squares;
        const auto part = [&](Array& sum, std::vector<double>& to) {
          return GradientPart{sum.data(),   last.data(), to.data(), count, low.as<std::uint16_t>(),
                              two_gradients};
        };
        const GradientPart wanted = part(high, squares), made = part(found, found_squares);
        reference_.finish_parts({&wanted, 1}, DType::bf16, DType::bf16);
        cpu_.finish_parts({&made, 1}, DType::bf16, DType::bf16);
        ASSERT_EQ(difference(high, found), "")
            << about(target, GetParam(), DType::bf16, DType::bf16, count);
        ASSERT_EQ(difference(halves, low), "") << "the lower plane is only read";
        ASSERT_EQ(squares, found_squares) << count;
      }
    }
  }
}

// The promise: partials belong to blocks of a tensor, so any cut between blocks gives the same.
TEST_P(OptimizerGradients, CuttingBetweenBlocksChangesNoPartial) {
  const std::int64_t count = 21 * kNormBlock + 1234;
  Array gradient(DType::bf16, count, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const CounterRng rng(11, 1);
    gradient.as<bf16>()[i] = to_bf16(static_cast<float>(rng.normal(static_cast<std::uint64_t>(i))));
  }
  std::vector<double> whole(static_cast<std::size_t>(norm_blocks(count)));
  cpu_.square_sums(whole.data(), gradient.data(), DType::bf16, count);
  for (const std::int64_t blocks : {1, 2, 5, 9, 20}) {
    std::vector<double> cut(whole.size());
    for (std::int64_t start = 0; start < count; start += blocks * kNormBlock) {
      cpu_.square_sums(cut.data() + start / kNormBlock, gradient.as<bf16>() + start, DType::bf16,
                       std::min(blocks * kNormBlock, count - start));
    }
    EXPECT_EQ(whole, cut) << "cut every " << blocks << " blocks, seed 11";
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, OptimizerGradients, testing::Values(1, 2, 3));

// The order by another road: one sum after the other, then the tree written out.
TEST(ReferenceSquareSums, AddsInTheWrittenOrder) {
  std::vector<float> values(3001);
  const CounterRng rng(5, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::exp(8 * rng.normal(i)));
  }
  double s[16];
  for (std::size_t lane = 0; lane < 16; ++lane) {
    s[lane] = 0;
    for (std::size_t j = lane; j < values.size(); j += 16) {
      s[lane] += static_cast<double>(values[j]) * static_cast<double>(values[j]);
    }
  }
  const auto four = [&](int l) { return (s[l] + s[l + 8]) + (s[l + 4] + s[l + 12]); };
  const double expected = (four(0) + four(2)) + (four(1) + four(3));
  double found = 0;
  ReferenceOptimizerOps().square_sums(&found, values.data(), DType::f32, 3001);
  EXPECT_EQ(expected, found) << "seed 5";
}

TEST(ReferenceOptimizerGradients, RoundOnceToNearestEven) {
  const float sum[] = {1.0f, 1.0f, 3e38f};
  bf16 gradient[] = {{0x3b80}, {0x3c40}, {0x7f7f}};  // 2^-8, 3 * 2^-8, the largest
  ReferenceOptimizerOps().finish_gradient(gradient, DType::bf16, sum, DType::f32, 3);
  EXPECT_EQ(gradient[0].bits, 0x3f80);  // halfway: down to even
  EXPECT_EQ(gradient[1].bits, 0x3f82);  // halfway: up to even
  EXPECT_EQ(gradient[2].bits, 0x7f80);
}

}  // namespace
}  // namespace ebb::kernels
