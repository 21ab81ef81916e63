// The model room: decoders driven by a configuration. It knows shapes, names of parameters and the
// order of operations; it computes through kernels::ModelOps on memory that others own and place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ebb::model {

// The Llama and Qwen2.5 families: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
struct Config {
  std::string family = "llama";  // "llama", or "qwen2": which has biases on q, k and v
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool qkv_bias = false;
  bool tied = false;

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * kv_width(); }

  friend bool operator==(const Config&, const Config&) = default;
};

// A Hugging Face config.json. `where` names the file in errors. What Ebb cannot compute exactly
// (another architecture, scaled rotary positions, sliding windows) is refused by name.
Config parse_config(const Json& json, std::string_view where);
Json to_json(const Config&, std::string_view dtype);

// Throws ConfigError if the shapes make no sense or break what the kernels rely on.
void check(const Config&, std::string_view where);

// "tiny", "small", "qwen2.5-1.5b", ...; throws ConfigError that lists them.
Config preset(std::string_view name);
std::vector<std::string_view> preset_names();

}  // namespace ebb::model
