// Models as GGUF files made for a test: weights by the names, in the order of rows and with the
// offsets that such files have, written out without the reader's code.
#pragma once

#include <numbers>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/made_folders.h"
#include "files/made_gguf.h"
#include "model/config.h"
#include "model/parameters.h"

namespace ebb::engine {

// Weights of a configuration: random matrices, and vectors of numbers that have an exact sum with
// one.
inline Weights random_weights(const model::Config& config) {
  const model::Initializer initializer(config, 5);
  Weights weights;
  for (const model::Parameter& parameter : model::parameters_of(config).all) {
    NamedValues& values = weights[parameter.name];
    values.shape = parameter.matrix ? std::vector{parameter.rows, parameter.cols}
                                    : std::vector{parameter.rows};
    values.values.resize(static_cast<std::size_t>(parameter.count()));
    initializer.fill(parameter, 0, parameter.count(), values.values.data());
    if (parameter.matrix) continue;
    for (std::size_t i = 0; i < values.values.size(); ++i) {
      values.values[i] += static_cast<float>(i % 7) / 64 - 0.0625f;
    }
  }
  return weights;
}

// "model.layers.1.self_attn.q_proj.weight" is "blk.1.attn_q.weight".
inline std::string name_in_gguf(std::string name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const std::size_t at = name.find(from); at != std::string::npos) {
      name.replace(at, from.size(), to);
    }
  };
  replace("model.embed_tokens.", "token_embd.");
  replace("model.norm.", "output_norm.");
  replace("lm_head.", "output.");
  replace("model.layers.", "blk.");
  replace("input_layernorm", "attn_norm");
  replace("post_attention_layernorm", "ffn_norm");
  replace("self_attn.o_proj", "attn_output");
  for (const std::string part : {"q", "k", "v"}) {
    replace("self_attn." + part + "_proj", "attn_" + part);
    replace("self_attn." + part + "_norm", "attn_" + part + "_norm");
  }
  for (const std::string part : {"gate", "up", "down"}) {
    replace("mlp." + part + "_proj", "ffn_" + part);
  }
  return name;
}

// Rows of a head: first half and second half, taken in turn.
inline std::vector<float> in_pairs(const NamedValues& from, std::int64_t head_dim) {
  const auto columns = from.shape.size() == 2 ? from.shape[1] : 1;
  std::vector<float> to;
  for (std::int64_t head = 0; head < from.shape[0] / head_dim; ++head) {
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {
      for (const std::int64_t half : {std::int64_t{0}, head_dim / 2}) {
        const auto row = from.values.begin() + (head * head_dim + half + i) * columns;
        to.insert(to.end(), row, row + columns);
      }
    }
  }
  return to;
}

// The factors of Llama 3.1's frequencies, one by one.
inline std::vector<float> rotary_factors(const model::Config& config) {
  std::vector<float> factors;
  for (std::int64_t i = 0; i < config.head_dim; i += 2) {
    const double frequency =
        1.0 /
        std::pow(config.rope_theta, static_cast<double>(i) / static_cast<double>(config.head_dim));
    const double wavelength = 2 * std::numbers::pi / frequency;
    const auto [kind, factor, low, high, original] = config.rope_scaling;
    const auto old = static_cast<double>(original);
    double found = 1;
    if (wavelength > old / low) {
      found = factor;
    } else if (wavelength >= old / high) {
      const double smooth = (old / wavelength - low) / (high - low);
      found = 1 / ((1 - smooth) / factor + smooth);
    }
    factors.push_back(static_cast<float>(found));
  }
  return factors;
}

inline files::MadeGguf gguf_keys(const model::Config& config) {
  const std::string name = config.family == "mistral" ? "llama" : config.family;
  files::MadeGguf made;
  made.value("general.architecture", name);
  const auto number = [&](const std::string& key, std::int64_t value) {
    made.value(name + "." + key, static_cast<std::uint32_t>(value));
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
  if (config.family == "mistral") number("attention.sliding_window", config.windows.front());
  made.value(name + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.norm_epsilon));
  made.value(name + ".rope.freq_base", static_cast<float>(config.rope_theta));
  if (config.rope_scaling.kind == model::RopeScaling::Kind::linear) {
    made.value(name + ".rope.scaling.type", "linear");
    made.value(name + ".rope.scaling.factor", static_cast<float>(config.rope_scaling.factor));
  }
  return made;
}

// Vectors are F32, as everywhere; matrices F32 or BF16 (type 30).
inline void add_weights(files::MadeGguf& made, const model::Config& config, const Weights& weights,
                        files::StoredType matrices = files::StoredType::f32) {
  const bool pairs = config.family == "llama" || config.family == "mistral";
  for (const auto& [name, values] : weights) {
    std::vector<std::uint64_t> sizes(values.shape.rbegin(), values.shape.rend());
    std::vector<float> stored = values.values;
    const bool rotated =
        name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
    if (pairs && rotated) stored = in_pairs(values, config.head_dim);
    if (config.family == "gemma" && name.find("norm") != std::string::npos) {
      for (float& value : stored) value += 1.0f;
    }
    const auto type = values.shape.size() == 2 ? matrices : files::StoredType::f32;
    const std::vector<std::byte> bytes = store_as(type, stored);
    made.tensor(name_in_gguf(name), type == files::StoredType::f32 ? 0 : 30, sizes,
                {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  if (config.rope_scaling.kind == model::RopeScaling::Kind::llama3) {
    const std::vector<float> factors = rotary_factors(config);
    made.floats("rope_freqs.weight", {factors.size()}, factors);
  }
}

// The keys of a byte-level tokenizer.json, whose added tokens are all special.
inline void add_byte_level(files::MadeGguf& made, const Json& tokenizer, const char* pre) {
  const auto& vocabulary = tokenizer["model"]["vocab"];
  std::vector<std::string> tokens(vocabulary.size() + tokenizer["added_tokens"].size());
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const auto& [token, id] : vocabulary.items()) tokens[id.get<std::size_t>()] = token;
  for (const Json& added : tokenizer["added_tokens"]) {
    tokens[added["id"].get<std::size_t>()] = added["content"];
    types[added["id"].get<std::size_t>()] = added["special"].get<bool>() ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (const Json& merge : tokenizer["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  made.value("tokenizer.ggml.model", "gpt2").value("tokenizer.ggml.pre", pre);
  made.list("tokenizer.ggml.tokens", tokens).list("tokenizer.ggml.token_type", types);
  made.list("tokenizer.ggml.merges", merges);
}

}  // namespace ebb::engine
