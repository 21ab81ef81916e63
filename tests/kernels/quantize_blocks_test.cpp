// Numbers to blocks: how close they come back, that the fast loops have the reference's bits, and
// what is odd about blocks.
#include "kernels/reference/quantize_blocks.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/search_loops.h"

namespace ebb::kernels {
namespace {

constexpr std::array kBlockTypes = {
    WeightType::q4_0, WeightType::q4_1, WeightType::q5_0, WeightType::q5_1, WeightType::q8_0,
    WeightType::q2_k, WeightType::q3_k, WeightType::q4_k, WeightType::q5_k, WeightType::q6_k};
constexpr unsigned kSeed = 20261118;

enum class Kind { normal, heavy, positive, uneven };

std::vector<float> numbers(Kind kind, std::size_t count) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> heavy(3);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    switch (kind) {
      case Kind::normal: values[i] = 0.02f * normal(random); break;
      case Kind::heavy: values[i] = heavy(random); break;
      case Kind::positive: values[i] = 3 + std::abs(normal(random)); break;
      case Kind::uneven:
        values[i] = normal(random) * std::exp(2 * std::sin(0.37f * static_cast<float>(i % 256)));
        break;
    }
  }
  return values;
}

std::vector<std::byte> quantized(WeightType type, const std::vector<float>& values,
                                 const SearchLoops& loops = reference_search_loops()) {
  std::vector<std::byte> blocks(
      static_cast<std::size_t>(grain_of(type).size_of(static_cast<std::int64_t>(values.size()))));
  quantize_blocks(type, values, blocks, loops);
  return blocks;
}

std::vector<float> widened(WeightType type, const std::vector<std::byte>& blocks) {
  std::vector<float> values(blocks.size() / static_cast<std::size_t>(grain_of(type).bytes) *
                            static_cast<std::size_t>(grain_of(type).per));
  widen_blocks(type, blocks, values);
  return values;
}

// The root of the mean squared error, as a share of the numbers' own.
double error_of(WeightType type, const std::vector<float>& values) {
  const std::vector<float> found = widened(type, quantized(type, values));
  double error = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(found[i]) - static_cast<double>(values[i]);
    error += difference * difference;
    all += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return std::sqrt(error / all);
}

// Normal numbers, as weights nearly are. llama.cpp's own quantisers without an importance matrix
// have the second column (bench/results/2026-11-18-quantize.md); the third is what is promised.
TEST(QuantizeBlocks, ErrorsOfNormalNumbers) {
  const std::vector<float> values = numbers(Kind::normal, 1 << 16);
  struct Promise {
    WeightType type;
    double theirs, most;
  };
  for (const auto& [type, theirs, most] :
       {Promise{WeightType::q4_0, 0.0861, 0.083}, Promise{WeightType::q4_1, 0.0783, 0.072},
        Promise{WeightType::q5_0, 0.0427, 0.041}, Promise{WeightType::q5_1, 0.0378, 0.035},
        Promise{WeightType::q8_0, 0.00535, 0.0055}, Promise{WeightType::q2_k, 0.296, 0.27},
        Promise{WeightType::q3_k, 0.151, 0.147}, Promise{WeightType::q4_k, 0.0714, 0.072},
        Promise{WeightType::q5_k, 0.0361, 0.0355}, Promise{WeightType::q6_k, 0.0178, 0.0174}}) {
    const double found = error_of(type, values);
    EXPECT_LT(found, most) << name_of(type);
    EXPECT_LT(found, 1.02 * theirs) << name_of(type);
  }
}

TEST(QuantizeBlocks, FastLoopsHaveTheReferencesBits) {
  const auto forget = [] {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  };
  for (const std::string& level : isa_levels()) {
    forget();
    use_isa(level);
    for (const Kind kind : {Kind::normal, Kind::heavy, Kind::positive, Kind::uneven}) {
      const std::vector<float> values = numbers(kind, 4096);
      for (const WeightType type : kBlockTypes) {
        EXPECT_EQ(quantized(type, values, cpu_search_loops()), quantized(type, values))
            << name_of(type) << " on " << level << ", numbers " << static_cast<int>(kind);
      }
    }
  }
  forget();
  use_isa_of_environment();
}

// Each block follows from its own numbers.
TEST(QuantizeBlocks, BlocksDoNotDependOnEachOther) {
  const std::vector<float> values = numbers(Kind::heavy, 1024);
  for (const WeightType type : kBlockTypes) {
    const std::vector<std::byte> all = quantized(type, values);
    const auto per = static_cast<std::size_t>(grain_of(type).per);
    const auto bytes = static_cast<std::size_t>(grain_of(type).bytes);
    for (std::size_t b = 0; b < values.size() / per; ++b) {
      const std::vector<float> alone(values.begin() + static_cast<long>(b * per),
                                     values.begin() + static_cast<long>((b + 1) * per));
      const std::vector<std::byte> expected(all.begin() + static_cast<long>(b * bytes),
                                            all.begin() + static_cast<long>((b + 1) * bytes));
      ASSERT_EQ(quantized(type, alone), expected) << name_of(type) << " block " << b;
    }
  }
}

TEST(QuantizeBlocks, OddNumbersStayFinite) {
  const float most = kLargestInBlocks;
  const float least = std::numeric_limits<float>::denorm_min();
  std::vector<std::vector<float>> cases = {
      std::vector<float>(256, 0.0f),  std::vector<float>(256, -0.0f),
      std::vector<float>(256, most),  std::vector<float>(256, -most),
      std::vector<float>(256, least), std::vector<float>(256, 1e-7f),
      std::vector<float>(256, 0.5f)};
  cases.emplace_back(256, 0.0f);
  cases.back()[77] = -most;
  cases.back()[200] = most;
  cases.emplace_back(256, 1000.0f);
  for (std::size_t i = 0; i < 256; ++i) cases.back()[i] += static_cast<float>(i) / 64;
  for (const WeightType type : kBlockTypes) {
    for (std::size_t c = 0; c < cases.size(); ++c) {
      const std::vector<float> found = widened(type, quantized(type, cases[c]));
      float largest = 0;
      for (const float value : cases[c]) largest = std::max(largest, std::abs(value));
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_LE(std::abs(found[i] - cases[c][i]), largest * 0.5f + 1e-6f)
            << name_of(type) << " case " << c << " element " << i << ": found " << found[i]
            << ", given " << cases[c][i];
      }
    }
  }
}

TEST(QuantizeBlocks, ZerosAreZeros) {
  const std::vector<float> zeros(512, 0.0f);
  for (const WeightType type : kBlockTypes) {
    EXPECT_EQ(widened(type, quantized(type, zeros)), zeros) << name_of(type);
  }
}

// What blocks can hold comes back as it was, or nearly: making blocks of them again loses little.
TEST(QuantizeBlocks, NumbersOfBlocksStayClose) {
  for (const WeightType type : kBlockTypes) {
    const std::vector<float> once = widened(type, quantized(type, numbers(Kind::normal, 1 << 14)));
    EXPECT_LT(error_of(type, once), type == WeightType::q2_k ? 0.2 : 0.05) << name_of(type);
  }
}

TEST(QuantizeBlocks, NothingIsNothing) {
  for (const WeightType type : kBlockTypes) quantize_blocks(type, {}, {});
}

TEST(Half, EveryOneComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = half_to_float(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(wide)))) << bits;
    } else {
      ASSERT_EQ(float_to_half(wide), half) << bits;
    }
  }
}

TEST(Half, RoundsToTheNearestEven) {
  // Between each two neighbours: the middle goes to the even one, what is beside it to the nearer.
  for (std::uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = half_to_float(half),
                high = half_to_float(static_cast<std::uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    const auto even = static_cast<std::uint16_t>(half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(float_to_half(middle), even) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), half + 1) << half;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000) << half;
  }
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
}

}  // namespace
}  // namespace ebb::kernels
