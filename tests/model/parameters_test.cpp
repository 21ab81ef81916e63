// The places and first values of parameters.
#include "model/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ebb::model {
namespace {

std::vector<Config> configs() {
  std::vector<Config> all;
  for (const std::string_view name : preset_names()) all.push_back(preset(name));
  // Widths that are multiples of nothing.
  all.push_back({.family = "qwen2",
                 .hidden = 10,
                 .layers = 3,
                 .heads = 3,
                 .kv_heads = 1,
                 .head_dim = 6,
                 .intermediate = 7,
                 .vocabulary = 13,
                 .max_positions = 8,
                 .qkv_bias = true,
                 .tied = false});
  return all;
}

TEST(Parameters, LieInOrderAlignedAndApart) {
  for (const Config& config : configs()) {
    const Parameters parameters = parameters_of(config);
    ASSERT_EQ(parameters.blocks.size(), static_cast<std::size_t>(config.layers) + 2);
    std::set<std::string> names;
    std::size_t next = 0;
    for (std::size_t b = 0; b < parameters.blocks.size(); ++b) {
      std::int64_t end = 0;
      for (const int p : parameters.blocks[b].parameters) {
        ASSERT_EQ(static_cast<std::size_t>(p), next++) << "block by block";
        const Parameter& parameter = parameters.all[static_cast<std::size_t>(p)];
        EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name << " twice";
        EXPECT_EQ(static_cast<std::size_t>(parameter.block), b) << parameter.name;
        EXPECT_EQ(parameter.first % kParameterAlignment, 0) << parameter.name;
        EXPECT_GE(parameter.first, end) << parameter.name;
        EXPECT_LT(parameter.first, end + kParameterAlignment) << parameter.name;
        EXPECT_GT(parameter.count(), 0) << parameter.name;
        EXPECT_EQ(parameter.matrix, parameter.start == Parameter::Start::normal) << parameter.name;
        end = parameter.first + parameter.count();
      }
      EXPECT_GE(parameters.blocks[b].length, end) << "block " << b;
      EXPECT_LT(parameters.blocks[b].length, end + kParameterAlignment) << "block " << b;
    }
    EXPECT_EQ(next, parameters.all.size());
  }
}

TEST(Parameters, OfEveryBlockAreWhereTheOffsetsSay) {
  for (const Config& config : configs()) {
    const BlockOffsets o = block_offsets(config);
    const Parameters parameters = parameters_of(config);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      const auto place = [&](const std::string& name) {
        for (const Parameter& parameter : parameters.all) {
          if (parameter.name == prefix + name) return parameter.first;
        }
        return std::int64_t{-1};
      };
      EXPECT_EQ(place("self_attn.q_proj.weight"), o.q);
      EXPECT_EQ(place("self_attn.k_proj.weight"), o.k);
      EXPECT_EQ(place("self_attn.v_proj.weight"), o.v);
      EXPECT_EQ(place("self_attn.o_proj.weight"), o.o);
      EXPECT_EQ(place("mlp.gate_proj.weight"), o.gate);
      EXPECT_EQ(place("mlp.up_proj.weight"), o.up);
      EXPECT_EQ(place("mlp.down_proj.weight"), o.down);
      EXPECT_EQ(place("self_attn.q_proj.bias"), config.qkv_bias ? o.q_bias : -1);
      EXPECT_EQ(place("self_attn.k_proj.bias"), config.qkv_bias ? o.k_bias : -1);
      EXPECT_EQ(place("self_attn.v_proj.bias"), config.qkv_bias ? o.v_bias : -1);
      EXPECT_EQ(place("input_layernorm.weight"), o.input_norm);
      EXPECT_EQ(place("post_attention_layernorm.weight"), o.post_norm);
      EXPECT_EQ(parameters.blocks[static_cast<std::size_t>(layer) + 1].length, o.length);
    }
  }
}

TEST(Parameters, OfATiedHeadAreItsNormAlone) {
  Config config = preset("tiny");
  ASSERT_TRUE(config.tied);
  EXPECT_EQ(parameters_of(config).blocks.back().parameters.size(), 1u);
  config.tied = false;
  EXPECT_EQ(parameters_of(config).blocks.back().parameters.size(), 2u);
}

std::vector<float> values(const Initializer& initializer, const Parameter& parameter,
                          std::int64_t first, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  initializer.fill(parameter, first, count, out.data());
  return out;
}

TEST(Initializer, DependsOnSeedNameAndIndexAlone) {
  const Config config = preset("tiny");
  const Initializer initializer(config, 5);
  const Parameter matrix = parameters_of(config).all[1];
  const auto whole = values(initializer, matrix, 0, matrix.count());
  for (const std::int64_t first : {0, 1, 100, 4095}) {
    const auto part = values(initializer, matrix, first, 77);
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], whole[static_cast<std::size_t>(first) + i]) << first << " + " << i;
    }
  }
  Parameter elsewhere = matrix;
  elsewhere.block = 7, elsewhere.first = 160;
  EXPECT_EQ(values(initializer, elsewhere, 0, matrix.count()), whole) << "the place does not count";
  elsewhere.name += "x";
  EXPECT_NE(values(initializer, elsewhere, 0, matrix.count()), whole);
  EXPECT_NE(values(Initializer(config, 6), matrix, 0, matrix.count()), whole);
}

TEST(Initializer, HasTheDeviationThatTheConfigurationSays) {
  const Config config = preset("tiny");
  const Initializer initializer(config, 5);
  for (const Parameter& parameter : parameters_of(config).all) {
    const auto all = values(initializer, parameter, 0, parameter.count());
    if (parameter.start != Parameter::Start::normal) {
      const float expected = parameter.start == Parameter::Start::ones ? 1.0f : 0.0f;
      for (const float x : all) ASSERT_EQ(x, expected) << parameter.name;
      continue;
    }
    double squares = 0;
    for (const float x : all) squares += static_cast<double>(x) * x;
    const bool residual = parameter.name.find("o_proj") != std::string::npos ||
                          parameter.name.find("down_proj") != std::string::npos;
    const double expected =
        0.02 / (residual ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1.0);
    const double found = std::sqrt(squares / static_cast<double>(all.size()));
    EXPECT_NEAR(found, expected, 0.05 * expected) << parameter.name;
  }
}

}  // namespace
}  // namespace ebb::model
