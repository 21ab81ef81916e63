#include "states/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace ebb::states {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

GradientNorm norm_of(const std::vector<std::vector<double>>& tensors, double clip) {
  const std::vector<std::span<const double>> spans(tensors.begin(), tensors.end());
  return global_norm(spans, clip);
}

TEST(GlobalNorm, ScalesAsTorchDoes) {
  const GradientNorm norm = norm_of({{9.0}, {}, {10.0, 6.0}}, 1.0);
  EXPECT_EQ(norm.value, 5.0);
  EXPECT_EQ(norm.first_bad_tensor, -1);
  EXPECT_EQ(norm.scale.apply, 1);
  EXPECT_EQ(norm.scale.gradient_scale, static_cast<float>(1.0 / (5.0 + 1e-6)));
}

// Gradients that were made 8 times too large: the norm and the clip are of what they should be.
TEST(GlobalNorm, DividesWhatWasScaled) {
  const std::vector<double> squares = {9.0 * 64, 16.0 * 64};
  const std::vector<std::span<const double>> spans = {squares};
  const GradientNorm norm = global_norm(spans, 1.0, 8.0);
  EXPECT_EQ(norm.value, 5.0);
  EXPECT_EQ(norm.scale.gradient_scale, static_cast<float>(1.0 / (5.0 + 1e-6) / 8.0));
  EXPECT_EQ(global_norm(spans, 0.0, 8.0).scale.gradient_scale, 0.125f);
}

TEST(GlobalNorm, NeverScalesUp) {
  EXPECT_EQ(norm_of({{0.25}}, 1.0).scale.gradient_scale, 1.0f);
  EXPECT_EQ(norm_of({{0.0}}, 1.0).scale.gradient_scale, 1.0f);
  EXPECT_EQ(norm_of({}, 1.0).scale.gradient_scale, 1.0f);
  EXPECT_EQ(norm_of({}, 1.0).value, 0.0);
}

TEST(GlobalNorm, NoClipMeansNoScale) {
  for (const double clip : {0.0, -1.0, kInfinity}) {
    EXPECT_EQ(norm_of({{1e6}}, clip).scale.gradient_scale, 1.0f) << clip;
    EXPECT_EQ(norm_of({{1e6}}, clip).scale.apply, 1) << clip;
  }
}

TEST(GlobalNorm, NamesTheFirstTensorThatIsNotFinite) {
  for (const double bad : {kInfinity, kNan}) {
    for (const double clip : {1.0, 0.0}) {
      const GradientNorm norm = norm_of({{1.0}, {}, {1.0, bad}, {kNan}}, clip);
      EXPECT_EQ(norm.scale.apply, 0);
      EXPECT_EQ(norm.first_bad_tensor, 2);
      EXPECT_FALSE(std::isfinite(norm.value));
    }
  }
}

// 1 + e is lost against 2^53, so this tells the promised order from any other.
TEST(GlobalNorm, AddsWithinTensorsFirst) {
  const double big = 0x1p53;
  EXPECT_EQ(norm_of({{big}, {1.0, 1.0}}, 0).value, std::sqrt(big + 2.0));
  EXPECT_EQ(norm_of({{big, 1.0}, {1.0}}, 0).value, std::sqrt(big));
}

}  // namespace
}  // namespace ebb::states
