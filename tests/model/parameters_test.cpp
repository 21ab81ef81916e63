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

TEST(Parameters, OfEveryBlockAreWhereThePlacesSay) {
  for (const Config& config : configs()) {
    if (config.family == "gpt2") continue;
    const BlockPlaces places = block_places(config);
    const Parameters parameters = parameters_of(config);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      const auto place = [&](const std::string& name) {
        for (const Parameter& parameter : parameters.all) {
          if (parameter.name == prefix + name) return parameter.first;
        }
        return kNowhere;
      };
      EXPECT_EQ(place("self_attn.q_proj.weight"), places.qkv[0].weight);
      EXPECT_EQ(place("self_attn.q_proj.bias"), places.qkv[0].bias);
      if (places.qkv.size() == 3) {
        EXPECT_EQ(place("self_attn.k_proj.weight"), places.qkv[1].weight);
        EXPECT_EQ(place("self_attn.k_proj.bias"), places.qkv[1].bias);
        EXPECT_EQ(place("self_attn.v_proj.weight"), places.qkv[2].weight);
        EXPECT_EQ(place("self_attn.v_proj.bias"), places.qkv[2].bias);
      } else {
        EXPECT_EQ(places.qkv[0].out, config.qkv_width());
        EXPECT_EQ(
            place("self_attn.v_proj.weight"),
            places.qkv[0].weight + (config.query_width() + config.kv_width()) * config.hidden);
      }
      EXPECT_EQ(place("self_attn.o_proj.weight"), places.o.weight);
      EXPECT_EQ(place("mlp.gate_proj.weight"), places.up[0].weight);
      EXPECT_EQ(place("mlp.up_proj.weight"),
                places.up.size() == 2 ? places.up[1].weight
                                      : places.up[0].weight + config.intermediate * config.hidden);
      EXPECT_EQ(place("mlp.down_proj.weight"), places.down.weight);
      EXPECT_EQ(place("input_layernorm.weight"), places.input_norm.weight);
      EXPECT_EQ(place("post_attention_layernorm.weight"), places.post_norm.weight);
      EXPECT_EQ(place("self_attn.k_norm.weight"), config.qk_norm ? places.k_norm.weight : kNowhere);
      EXPECT_EQ(parameters.blocks[static_cast<std::size_t>(layer) + 1].length, places.length);
    }
  }
}

TEST(Parameters, OfGpt2AreAsItsFilesHaveThem) {
  const Config config = preset("gpt2");
  const Parameters parameters = parameters_of(config);
  const auto find = [&](const std::string& name) -> const Parameter& {
    for (const Parameter& parameter : parameters.all) {
      if (parameter.name == name) return parameter;
    }
    throw std::runtime_error("no parameter " + name);
  };
  const BlockPlaces places = block_places(config);
  EXPECT_EQ(find("transformer.wte.weight").rows, 50257);
  EXPECT_EQ(find("transformer.wpe.weight").first, positions_place(config));
  EXPECT_EQ(find("transformer.wpe.weight").block, 0);
  const Parameter& qkv = find("transformer.h.11.attn.c_attn.weight");
  EXPECT_EQ(qkv.rows, 768);
  EXPECT_EQ(qkv.cols, 3 * 768);
  ASSERT_EQ(places.qkv.size(), 1u);
  EXPECT_EQ(qkv.first, places.qkv[0].weight);
  EXPECT_EQ(find("transformer.h.11.attn.c_attn.bias").first, places.qkv[0].bias);
  EXPECT_EQ(find("transformer.h.3.mlp.c_fc.weight").cols, 3072);
  EXPECT_EQ(find("transformer.h.3.mlp.c_fc.bias").first, places.up[0].bias);
  EXPECT_EQ(find("transformer.h.3.mlp.c_proj.weight").rows, 3072);
  EXPECT_TRUE(find("transformer.h.3.mlp.c_proj.weight").residual);
  EXPECT_EQ(find("transformer.h.3.ln_2.bias").first, places.post_norm.bias);
  EXPECT_EQ(find("transformer.ln_f.weight").first, head_norm_place(config).weight);
  EXPECT_EQ(find("transformer.ln_f.bias").first, head_norm_place(config).bias);
}

TEST(Parameters, HaveOneNameWhateverFilesCallThem) {
  const Config gpt2 = preset("gpt2"), tied = preset("tiny"), untied = preset("llama-3.1-8b");
  EXPECT_EQ(canonical_name(gpt2, "h.0.attn.c_attn.bias"), "transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(canonical_name(gpt2, "transformer.h.0.ln_1.weight"), "transformer.h.0.ln_1.weight");
  EXPECT_EQ(canonical_name(gpt2, "h.0.attn.bias"), "");
  EXPECT_EQ(canonical_name(gpt2, "transformer.h.0.attn.masked_bias"), "");
  EXPECT_EQ(canonical_name(gpt2, "lm_head.weight"), "");
  EXPECT_EQ(canonical_name(tied, "lm_head.weight"), "");
  EXPECT_EQ(canonical_name(untied, "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_name(tied, "embed_tokens.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(canonical_name(tied, "model.layers.3.self_attn.rotary_emb.inv_freq"), "");
  for (const Config& config : configs()) {
    for (const Parameter& parameter : parameters_of(config).all) {
      EXPECT_EQ(canonical_name(config, parameter.name), parameter.name);
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
    ASSERT_EQ(parameter.residual, residual) << parameter.name;
    const double expected =
        0.02 / (residual ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1.0);
    const double found = std::sqrt(squares / static_cast<double>(all.size()));
    EXPECT_NEAR(found, expected, 0.05 * expected) << parameter.name;
  }
}

}  // namespace
}  // namespace ebb::model
