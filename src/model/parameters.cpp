#include "model/parameters.h"

#include <cmath>

#include <fmt/format.h>

#include "base/rng.h"

namespace ebb::model {
namespace {

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// Lays parameters one after the other in a block.
class BlockWriter {
 public:
  BlockWriter(Parameters& parameters, std::string name) : parameters_(parameters) {
    parameters_.blocks.push_back({.name = std::move(name), .length = 0, .parameters = {}});
  }

  void matrix(std::string name, std::int64_t rows, std::int64_t cols) {
    add({.name = std::move(name), .rows = rows, .cols = cols, .matrix = true});
  }
  void vector(std::string name, std::int64_t count, Parameter::Start start) {
    add({.name = std::move(name), .rows = count, .start = start});
  }

 private:
  void add(Parameter parameter) {
    ParameterBlock& block = parameters_.blocks.back();
    parameter.block = static_cast<int>(parameters_.blocks.size()) - 1;
    parameter.first = block.length;
    block.length = block_length(block.length + parameter.count());
    block.parameters.push_back(static_cast<int>(parameters_.all.size()));
    parameters_.all.push_back(std::move(parameter));
  }

  Parameters& parameters_;
};

// Matrices first: a chunk then holds decaying or resting parameters with one border at most.
void add_transformer_block(Parameters& parameters, const Config& c, std::int64_t layer) {
  BlockWriter block(parameters, fmt::format("block {}", layer));
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  block.matrix(prefix + "self_attn.q_proj.weight", c.query_width(), c.hidden);
  block.matrix(prefix + "self_attn.k_proj.weight", c.kv_width(), c.hidden);
  block.matrix(prefix + "self_attn.v_proj.weight", c.kv_width(), c.hidden);
  block.matrix(prefix + "self_attn.o_proj.weight", c.hidden, c.query_width());
  block.matrix(prefix + "mlp.gate_proj.weight", c.intermediate, c.hidden);
  block.matrix(prefix + "mlp.up_proj.weight", c.intermediate, c.hidden);
  block.matrix(prefix + "mlp.down_proj.weight", c.hidden, c.intermediate);
  if (c.qkv_bias) {
    block.vector(prefix + "self_attn.q_proj.bias", c.query_width(), Parameter::Start::zeros);
    block.vector(prefix + "self_attn.k_proj.bias", c.kv_width(), Parameter::Start::zeros);
    block.vector(prefix + "self_attn.v_proj.bias", c.kv_width(), Parameter::Start::zeros);
  }
  block.vector(prefix + "input_layernorm.weight", c.hidden, Parameter::Start::ones);
  block.vector(prefix + "post_attention_layernorm.weight", c.hidden, Parameter::Start::ones);
}

}  // namespace

std::int64_t Parameters::count() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : all) total += parameter.count();
  return total;
}

Parameters parameters_of(const Config& config) {
  Parameters parameters;
  BlockWriter(parameters, "embedding")
      .matrix("model.embed_tokens.weight", config.vocabulary, config.hidden);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    add_transformer_block(parameters, config, layer);
  }
  BlockWriter head(parameters, "head");
  if (!config.tied) head.matrix("lm_head.weight", config.vocabulary, config.hidden);
  head.vector("model.norm.weight", config.hidden, Parameter::Start::ones);
  return parameters;
}

std::string canonical_name(const Config& config, std::string_view in_file) {
  const bool second_head = config.tied && in_file == "lm_head.weight";
  if (second_head || in_file.ends_with("rotary_emb.inv_freq")) return {};
  return std::string(in_file);
}

BlockOffsets block_offsets(const Config& config) {
  Parameters parameters;
  add_transformer_block(parameters, config, 0);
  std::size_t next = 0;
  const auto take = [&] { return parameters.all[next++].first; };
  BlockOffsets o;
  o.q = take(), o.k = take(), o.v = take(), o.o = take();
  o.gate = take(), o.up = take(), o.down = take();
  if (config.qkv_bias) o.q_bias = take(), o.k_bias = take(), o.v_bias = take();
  o.input_norm = take(), o.post_norm = take();
  o.length = parameters.blocks[0].length;
  o.qkv_joined = o.k - o.q == config.query_width() * config.hidden &&
                 o.v - o.k == config.kv_width() * config.hidden &&
                 (!config.qkv_bias || (o.k_bias - o.q_bias == config.query_width() &&
                                       o.v_bias - o.k_bias == config.kv_width()));
  o.gate_up_joined = o.up - o.gate == config.intermediate * config.hidden;
  return o;
}

void Initializer::fill(const Parameter& parameter, std::int64_t first, std::int64_t count,
                       float* out) const {
  if (parameter.start != Parameter::Start::normal) {
    const float value = parameter.start == Parameter::Start::ones ? 1.0f : 0.0f;
    for (std::int64_t i = 0; i < count; ++i) out[i] = value;
    return;
  }
  // Projections back into the residual stream start smaller, so that its variance does not grow
  // with the depth.
  const bool residual =
      parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
  const double deviation = config_.initializer_range /
                           (residual ? std::sqrt(2.0 * static_cast<double>(config_.layers)) : 1.0);
  const CounterRng rng(seed_, hash_name(parameter.name));
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(deviation * rng.normal(static_cast<std::uint64_t>(first + i)));
  }
}

}  // namespace ebb::model
