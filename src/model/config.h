// The model room: decoders driven by a configuration. It knows shapes, names of parameters and the
// order of operations; it computes through kernels::ModelOps on memory that others own and place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/list.h"
#include "kernels/model_ops.h"

namespace ebb::model {

// How the wavelengths of rotary positions are stretched beyond those of training.
struct RopeScaling {
  enum class Kind {
    none,
    linear,  // all by `factor`
    llama3   // the long ones by `factor`, the short ones not at all, a smooth change between
  };
  Kind kind = Kind::none;
  double factor = 1.0;
  // llama3: wavelengths above original / low are long, below original / high short.
  double low = 1.0;
  double high = 4.0;
  std::int64_t original = 8192;  // positions known before the stretch

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// One decoder, described by its features; a family (families/) is a name for some of them. Blocks
// are: norm, causal attention with grouped queries, residual; norm, MLP, residual.
struct Config {
  using Activation = kernels::Activation;
  using NormKind = kernels::LayerNorm::Kind;
  enum class Positions { rotary, learned };

  std::string family = "llama";  // names parameters and fields of config.json
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  Positions positions = Positions::rotary;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  List<std::int64_t> windows = {};  // keys a query sees, by layer, 0: all; empty: all, always
  NormKind norm = NormKind::rms;    // layer norms have biases
  double norm_epsilon = 1e-5;
  double norm_offset = 0.0;  // added to the weights of norms
  bool qk_norm = false;      // q and k are normalised by heads before they are rotated
  Activation activation = Activation::silu;
  bool gated = true;  // the MLP is down(act(gate) * up), else down(act(up))
  double initializer_range = 0.02;
  bool scaled_embeddings = false;  // by the root of `hidden`
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool weights_in_by_out = false;  // of linear layers; else out x in
  bool tied = false;

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  // Columns that the MLP's first product makes.
  std::int64_t up_width() const { return gated ? 2 * intermediate : intermediate; }
  std::int64_t window(std::int64_t layer) const { return windows.empty() ? 0 : windows[layer]; }

  friend bool operator==(const Config&, const Config&) = default;
};

// A Hugging Face config.json. `where` names the file in errors. What Ebb cannot compute exactly
// (another architecture, another scaling of rotary positions) is refused by name.
Config parse_config(const Json& json, std::string_view where);
// One that transformers reads as the same model; so does parse_config.
Json to_json(const Config&, std::string_view dtype);

// Throws ConfigError if the shapes make no sense or break what the kernels rely on.
void check(const Config&, std::string_view where);

// "tiny", "small", "qwen2.5-1.5b", ...; throws ConfigError that lists them.
Config preset(std::string_view name);
std::vector<std::string_view> preset_names();

}  // namespace ebb::model
