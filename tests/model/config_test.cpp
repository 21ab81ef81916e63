// Configurations from files and presets.
#include "model/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "model/parameters.h"
#include "paths.h"

namespace ebb::model {
namespace {

Json golden(const std::string& name) {
  std::ifstream file(golden_folder("training/" + name) / "config.json");
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
  cases.push_back({with("head_dim", 258), "head_dim"});
  cases.push_back({with("model_type", "opt"), "model_type 'opt'"});
  cases.push_back({with("model_type", "gemma2"), "model_type 'gemma2'"});
  cases.push_back({with("model_type", "gemma3_text"), "model_type 'gemma3_text'"});
  cases.push_back({with("model_type", "mixtral"), "mixtures of experts"});
  cases.push_back({with("quantization_config", {{"bits", 4}}), "quantization_config"});
  cases.push_back({with("hidden_act", "relu"), "hidden_act 'relu'"});
  cases.push_back({with("hidden_act", 3), "hidden_act"});
  cases.push_back({with("mlp_bias", 1), "mlp_bias"});
  cases.push_back({with("attention_bias", "yes"), "attention_bias"});
  cases.push_back({with("tie_word_embeddings", 1), "tie_word_embeddings"});
  cases.push_back({with("rms_norm_eps", "small"), "rms_norm_eps"});
  cases.push_back({with("rms_norm_eps", -1.0), "rms_norm_eps"});
  cases.push_back({with("rope_theta", 0), "rope_theta"});
  cases.push_back({with("rope_theta", Json::object()), "rope_theta"});
  cases.push_back({with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}), "low_freq"});
  cases.push_back({with("rope_scaling", {{"type", "linear"}}), "factor"});
  cases.push_back({with("rope_scaling", {{"type", "linear"}, {"factor", 0}}), "factor"});
  cases.push_back({with("rope_scaling", {{"type", "dynamic"}, {"factor", 2}}), "'dynamic'"});
  cases.push_back({with("rope_scaling", {{"rope_type", "longrope"}}), "'longrope'"});
  cases.push_back({with("rope_parameters", {{"partial_rotary_factor", 0.5}}), "partial_rotary"});
  cases.push_back({with("rope_parameters", {{"full_attention", Json::object()}}), "type of layer"});
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

// What other families add to what can be wrong.
TEST(Config, RefusesWhatAFamilyDoesNotHave) {
  const auto of = [](const char* family, const char* key, Json value) {
    Json json = with("model_type", family);
    if (std::string(family) == "gpt2") {
      json = {{"model_type", "gpt2"},
              {"n_embd", 64},
              {"n_layer", 2},
              {"n_head", 4},
              {"vocab_size", 100}};
    }
    json[key] = std::move(value);
    return json;
  };
  struct Case {
    Json json;
    const char* field;
  };
  const Json sliding = {"full_attention", "sliding_attention"};
  for (const Case& c : {Case{of("gpt2", "n_embd", 66), "n_embd"},
                        {of("gpt2", "n_embd", std::int64_t{1} << 62), "n_embd"},
                        {of("gpt2", "n_layer", 0), "n_layer"},
                        {of("gpt2", "activation_function", "relu"), "activation_function 'relu'"},
                        {of("gpt2", "scale_attn_weights", false), "scale_attn_weights"},
                        {of("gpt2", "scale_attn_by_inverse_layer_idx", true), "inverse_layer_idx"},
                        {of("gpt2", "reorder_and_upcast_attn", true), "reorder_and_upcast_attn"},
                        {of("gpt2", "add_cross_attention", true), "add_cross_attention"},
                        {of("mistral", "sliding_window", 0), "sliding_window"},
                        {of("mistral", "sliding_window", "all"), "sliding_window"},
                        {of("mistral", "layer_types", sliding), "layer_types"},
                        {of("qwen2", "layer_types", sliding), "sliding_window"},
                        {of("qwen2", "layer_types", {"full_attention"}), "layer_types"},
                        {of("qwen3", "layer_types", {"full_attention", "none"}), "layer_types"},
                        {of("gemma", "hidden_activation", "silu"), "hidden_activation"},
                        {of("gemma", "use_bidirectional_attention", true), "bidirectional"}}) {
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

TEST(Config, ReadsBothStylesOfRotaryPositions) {
  const Json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  Json old = with("rope_theta", 500000.0);
  old["rope_scaling"] = scaling;
  Json today = smallest();
  today["rope_parameters"] = scaling;
  today["rope_parameters"]["rope_theta"] = 500000.0;
  const Config config = parse_config(old, "config.json");
  EXPECT_EQ(config, parse_config(today, "config.json"));
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::llama3);
  EXPECT_EQ(config.rope_scaling.factor, 8);
  EXPECT_EQ(config.rope_scaling.original, 8192);
}

TEST(Config, ReadsWindowsByLayer) {
  Json json = with("model_type", "qwen2");
  json["num_hidden_layers"] = 3;
  json["sliding_window"] = 16;
  EXPECT_TRUE(parse_config(json, "config.json").windows.empty()) << "use_sliding_window is off";
  json["use_sliding_window"] = true;
  json["max_window_layers"] = 2;
  EXPECT_EQ(parse_config(json, "config.json").windows, (std::vector<std::int64_t>{0, 0, 16}));
  json["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  const Config config = parse_config(json, "config.json");
  EXPECT_EQ(config.windows, (std::vector<std::int64_t>{16, 0, 0}));
  EXPECT_EQ(parse_config(to_json(config, "fp32"), "config.json"), config);

  Json mistral = with("model_type", "mistral");
  EXPECT_EQ(parse_config(mistral, "config.json").windows, (std::vector<std::int64_t>{4096, 4096}));
  mistral["sliding_window"] = nullptr;
  EXPECT_TRUE(parse_config(mistral, "config.json").windows.empty());
}

TEST(Config, ReadsGpt2WithAllItsDefaults) {
  const Config config = parse_config({{"model_type", "gpt2"},
                                      {"n_embd", 64},
                                      {"n_layer", 2},
                                      {"n_head", 4},
                                      {"vocab_size", 100},
                                      {"n_inner", nullptr},
                                      {"activation_function", "gelu_new"},
                                      {"resid_pdrop", 0.1}},
                                     "config.json");
  EXPECT_EQ(config.intermediate, 256);
  EXPECT_EQ(config.max_positions, 1024);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.activation, Config::Activation::gelu_tanh);
  EXPECT_EQ(config.norm, Config::NormKind::layer);
  EXPECT_EQ(config.positions, Config::Positions::learned);
  EXPECT_TRUE(config.tied && config.weights_in_by_out && !config.gated);
  EXPECT_EQ(to_json(config, "fp32").at("activation_function"), "gelu_new");
}

TEST(Config, ReadsGemmasNameOfItsActivation) {
  for (const char* name : {"gelu", "gelu_pytorch_tanh"}) {
    Json json = with("model_type", "gemma");
    json["hidden_act"] = name;
    json["hidden_activation"] = nullptr;
    EXPECT_EQ(parse_config(json, "config.json").activation, Config::Activation::gelu_tanh) << name;
  }
}

TEST(Preset, HasThePublishedNumberOfParameters) {
  const std::pair<const char*, std::int64_t> published[] = {
      {"qwen2.5-0.5b", 494'032'768},     {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},     {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},   {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},   {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496}, {"gpt2", 124'439'808},
      {"qwen3-0.6b", 596'049'920},       {"mistral-7b", 7'241'732'096},
      {"gemma-2b", 2'506'172'416},       {"qwen2.5-32b", 32'763'876'352},
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
