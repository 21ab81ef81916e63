// Configurations from files and presets.
#include "model/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include <fmt/format.h>

#include "ebb/error.h"
#include "model/parameters.h"

namespace ebb::model {
namespace {

Json golden(const std::string& name) {
  std::ifstream file(std::string(EBB_SOURCE_DIR) + "/tests/golden/training/" + name +
                     "/config.json");
  return Json::parse(file);
}

// The fields without which no model can be read.
Json smallest() {
  return {{"model_type", "llama"},    {"hidden_size", 64}, {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"vocab_size", 100}, {"intermediate_size", 96}};
}

Json with(const char* key, Json value) {
  Json json = smallest();
  json[key] = std::move(value);
  return json;
}

TEST(Config, ReadsALlamaFile) {
  const Config expected{.family = "llama",
                        .hidden = 48,
                        .layers = 3,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 12,
                        .intermediate = 80,
                        .vocabulary = 96,
                        .max_positions = 64,
                        .rope_theta = 10000,
                        .norm_epsilon = 1e-5,
                        .initializer_range = 0.02,
                        .qkv_bias = false,
                        .tied = false};
  EXPECT_EQ(parse_config(golden("llama"), "config.json"), expected);
}

TEST(Config, ReadsAQwenFile) {
  const Config expected{.family = "qwen2",
                        .hidden = 32,
                        .layers = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 8,
                        .intermediate = 64,
                        .vocabulary = 112,
                        .max_positions = 64,
                        .rope_theta = 100,
                        .norm_epsilon = 1e-6,
                        .initializer_range = 0.02,
                        .qkv_bias = true,
                        .tied = true};
  EXPECT_EQ(parse_config(golden("qwen2"), "config.json"), expected);
}

TEST(Config, FillsInDefaults) {
  const Config config = parse_config(smallest(), "config.json");
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.norm_epsilon, 1e-6);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_FALSE(config.tied);
  EXPECT_EQ(parse_config(with("head_dim", nullptr), "config.json"), config) << "null is absent";
}

TEST(Config, SurvivesBeingWrittenAndRead) {
  for (const std::string_view name : preset_names()) {
    const Config config = preset(name);
    EXPECT_EQ(parse_config(to_json(config, "bf16"), "config.json"), config) << name;
  }
}

TEST(Config, RefusesByFileAndField) {
  const auto json_without = [](const char* key) {
    Json json = smallest();
    json.erase(key);
    return json;
  };
  struct Case {
    Json json;
    const char* field;
  };
  std::vector<Case> cases;
  for (const char* key : {"model_type", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "vocab_size", "intermediate_size"}) {
    cases.push_back({json_without(key), key});
    cases.push_back({with(key, Json::array()), key});
    if (std::string(key) == "model_type") continue;
    cases.push_back({with(key, 0), key});
    cases.push_back({with(key, -1), key});
    cases.push_back({with(key, 1.5), key});
    cases.push_back({with(key, "64"), key});
    cases.push_back({with(key, std::int64_t{1} << 40), key});
    cases.push_back({with(key, std::numeric_limits<std::uint64_t>::max()), key});
  }
  for (const char* key : {"num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    cases.push_back({with(key, 0), key});
    cases.push_back({with(key, true), key});
  }
  cases.push_back({with("num_key_value_heads", 3), "num_key_value_heads"});
  cases.push_back({with("head_dim", 15), "head_dim"});
  cases.push_back({with("model_type", "gpt2"), "model_type 'gpt2'"});
  cases.push_back({with("hidden_act", "gelu"), "hidden_act 'gelu'"});
  cases.push_back({with("hidden_act", 3), "hidden_act"});
  cases.push_back({with("use_sliding_window", true), "use_sliding_window"});
  cases.push_back({with("mlp_bias", true), "mlp_bias"});
  cases.push_back({with("attention_bias", true), "attention_bias"});
  cases.push_back({with("tie_word_embeddings", 1), "tie_word_embeddings"});
  cases.push_back({with("rms_norm_eps", "small"), "rms_norm_eps"});
  cases.push_back({with("rms_norm_eps", -1.0), "rms_norm_eps"});
  cases.push_back({with("rope_theta", 0), "rope_theta"});
  cases.push_back({with("rope_theta", Json::object()), "rope_theta"});
  cases.push_back({with("rope_scaling", {{"rope_type", "llama3"}}), "rope_scaling"});
  cases.push_back({with("rope_scaling", {{"type", "linear"}}), "rope_scaling"});
  cases.push_back({with("rope_parameters", {{"rope_type", "yarn"}}), "rope_parameters"});
  cases.push_back({Json::array(), "JSON object"});
  for (const Case& c : cases) {
    try {
      parse_config(c.json, "folder/config.json");
      ADD_FAILURE() << "accepted: " << c.json.dump();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("folder/config.json"), std::string::npos) << text;
      EXPECT_NE(text.find(c.field), std::string::npos) << text << "\nfor " << c.json.dump();
    }
  }
}

TEST(Preset, HasThePublishedNumberOfParameters) {
  const std::pair<const char*, std::int64_t> published[] = {
      {"qwen2.5-0.5b", 494'032'768},     {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},     {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},   {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},   {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
  };
  for (const auto& [name, count] : published) {
    EXPECT_EQ(parameters_of(preset(name)).count(), count) << name;
  }
}

TEST(Preset, IsAlwaysAModelThatCanBeComputed) {
  for (const std::string_view name : preset_names()) {
    EXPECT_NO_THROW(check(preset(name), name)) << name;
  }
}

TEST(Preset, ListsThoseThereAre) {
  try {
    preset("huge");
    FAIL() << "there is no such preset";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("preset:huge"), std::string::npos) << text;
    for (const std::string_view name : preset_names()) {
      EXPECT_NE(text.find(name), std::string::npos) << name << " in " << text;
    }
  }
}

}  // namespace
}  // namespace ebb::model
