// Where parameters lie that keep the types of their file.
#include "model/weight_layout.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>

#include "model/config.h"

namespace ebb::model {
namespace {

using kernels::WeightType;

// Every parameter has bytes of its own, within its block, at a multiple of a cache line.
void expect_apart(const Parameters& parameters, const WeightLayout& layout,
                  const std::function<WeightType(int)>& type_of) {
  for (std::int64_t b = 0; b < parameters.blocks.count(); ++b) {
    Bytes end = 0;
    List<int> order = parameters.blocks[b].parameters;
    std::ranges::sort(order, {}, [&](int p) { return parameters.all[p].first; });
    for (const int p : order) {
      const Parameter& parameter = parameters.all[p];
      const Bytes offset = layout[b].offset_of(parameter.first);
      EXPECT_GE(offset, end) << parameter.name;
      EXPECT_EQ(offset % kPlaneAlignment, 0) << parameter.name;
      EXPECT_EQ(layout[b].run_of(parameter.first).type, type_of(p)) << parameter.name;
      // Rows begin where rows before them end.
      const Bytes row = kernels::grain_of(type_of(p)).size_of(parameter.cols);
      if (parameter.matrix && parameter.rows > 1) {
        EXPECT_EQ(layout[b].offset_of(parameter.first + parameter.cols), offset + row);
      }
      end = offset + kernels::grain_of(type_of(p)).size_of(parameter.count());
    }
    EXPECT_LE(end, layout[b].bytes());
    EXPECT_LT(layout[b].bytes(), end + kPlaneAlignment);
  }
}

TEST(WeightLayout, ParametersOfMixedTypesLieApart) {
  const Parameters parameters = parameters_of(preset("qwen2.5-0.5b"));
  const auto mixed = [&](int p) {
    constexpr WeightType types[] = {WeightType::q8_0, WeightType::q4_1, WeightType::q5_0};
    return parameters.all[p].matrix ? types[p % 3] : WeightType::f32;
  };
  expect_apart(parameters, WeightLayout(parameters, mixed), mixed);
}

TEST(WeightLayout, AlikeNeighboursAreOneRun) {
  const Parameters parameters = parameters_of(preset("qwen2.5-0.5b"));
  const auto plain = [](int) { return WeightType::bf16; };
  const WeightLayout layout(parameters, plain);
  expect_apart(parameters, layout, plain);
  const BlockPlaces places = block_places(preset("qwen2.5-0.5b"));
  ASSERT_EQ(places.qkv.size(), 1u);
  const StoredRun& run = layout[1].run_of(places.qkv[0].weight);
  EXPECT_GE(run.first + run.count, places.qkv[0].weight + places.qkv[0].in * places.qkv[0].out);
}

TEST(WeightLayout, ElementsOfNoParameterAreRefused) {
  const Parameters parameters = parameters_of(preset("tiny"));
  const WeightLayout layout(parameters, [](int) { return WeightType::bf16; });
  EXPECT_THROW(layout[0].run_of(-1), std::out_of_range);
  EXPECT_THROW(layout[0].run_of(parameters.blocks[0].length), std::out_of_range);
}

}  // namespace
}  // namespace ebb::model
