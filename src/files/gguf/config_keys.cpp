#include "files/gguf/config_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

using Kind = model::RopeScaling::Kind;

// The fields of config.json that a GGUF file has a key, or tensors, for.
constexpr std::array kSaid = {"model_type",
                              "hidden_size",
                              "num_hidden_layers",
                              "num_attention_heads",
                              "num_key_value_heads",
                              "head_dim",
                              "intermediate_size",
                              "vocab_size",
                              "max_position_embeddings",
                              "tie_word_embeddings",
                              "rms_norm_eps",
                              "attention_bias",
                              "mlp_bias",
                              "sliding_window",
                              "rope_theta",
                              "rope_scaling",
                              "rope_parameters"};

bool is_mistral(const model::Config& config) { return config.family == "mistral"; }

double factor_of(const model::Config& config, std::int64_t i) {
  const model::RopeScaling& scaling = config.rope_scaling;
  const double wavelength = 2 * std::numbers::pi *
                            std::pow(config.rope_theta, 2 * static_cast<double>(i) /
                                                            static_cast<double>(config.head_dim));
  const double smooth =
      std::clamp((static_cast<double>(scaling.original) / wavelength - scaling.low) /
                     (scaling.high - scaling.low),
                 0.0, 1.0);
  return 1 / ((1 - smooth) / scaling.factor + smooth);
}

}  // namespace

void check_gguf_can_say(const model::Config& config, const std::string& model) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(fmt::format("--model {}: {}, which a GGUF file cannot say", model, what));
  };
  constexpr std::array families = {"llama", "mistral", "qwen2", "qwen3", "gemma"};
  if (std::ranges::find(families, config.family) == families.end()) {
    throw ConfigError(
        fmt::format("--model {}: models of the {} family are not written as GGUF; those of llama, "
                    "mistral, qwen2, qwen3 and gemma are",
                    model, config.family));
  }
  if (config.family == "gemma" && !config.tied) {
    refuse("it is a gemma model with a head of its own");
  }
  // Ebb's reader knows the factors of these constants alone.
  const model::RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == Kind::llama3 &&
      (scaling.low != 1 || scaling.high != 4 || scaling.original != 8192 ||
       factor_of(config, config.head_dim / 2 - 1) != scaling.factor)) {
    refuse(
        fmt::format("its rotary positions are scaled as those of Llama 3.1 are, but with other "
                    "constants (low_freq_factor {}, high_freq_factor {}, "
                    "original_max_position_embeddings {}, rope_theta {})",
                    scaling.low, scaling.high, scaling.original, config.rope_theta));
  }
  // Whatever else there is: what is left of the configuration must be the whole of it.
  Json whole = model::to_json(config, "bf16");
  Json said = Json::object();
  for (const char* name : kSaid) {
    if (const auto found = whole.find(name); found != whole.end()) said[name] = *found;
  }
  if (!is_mistral(config)) said.erase("sliding_window");
  if (is_mistral(config) && !said.contains("sliding_window")) said["sliding_window"] = nullptr;
  model::Config read = model::parse_config(said, model);
  read.initializer_range = config.initializer_range;  // nobody computes with it
  if (read == config) return;
  const Json found = model::to_json(read, "bf16");
  for (const auto& [name, value] : whole.items()) {
    const auto other = found.find(name);
    if (other == found.end() || *other != value) {
      refuse(fmt::format("its configuration has {} {}", name, value.dump()));
    }
  }
  refuse("its configuration has a feature");
}

std::string gguf_architecture(const model::Config& config) {
  return is_mistral(config) ? "llama" : config.family;
}

void add_config_keys(const model::Config& config, GgufKeys& keys) {
  const std::string architecture = gguf_architecture(config);
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  const auto number = [&](std::string_view name, std::int64_t value) {
    keys.add(key(name), static_cast<std::uint32_t>(value));
  };
  number("block_count", config.layers);
  number("context_length", config.max_positions);
  number("embedding_length", config.hidden);
  number("feed_forward_length", config.intermediate);
  number("attention.head_count", config.heads);
  number("attention.head_count_kv", config.kv_heads);
  number("attention.key_length", config.head_dim);
  number("attention.value_length", config.head_dim);
  number("rope.dimension_count", config.head_dim);
  number("vocab_size", config.vocabulary);
  keys.add(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config.norm_epsilon));
  keys.add(key("rope.freq_base"), static_cast<float>(config.rope_theta));
  if (!config.windows.empty()) number("attention.sliding_window", config.windows.front());
  if (config.rope_scaling.kind == Kind::linear) {
    keys.add(key("rope.scaling.type"), "linear");
    keys.add(key("rope.scaling.factor"), static_cast<float>(config.rope_scaling.factor));
  }
}

std::vector<float> gguf_rotary_factors(const model::Config& config) {
  std::vector<float> factors;
  if (config.rope_scaling.kind != Kind::llama3) return factors;
  for (std::int64_t i = 0; i < config.head_dim / 2; ++i) {
    factors.push_back(static_cast<float>(factor_of(config, i)));
  }
  return factors;
}

}  // namespace ebb::files
