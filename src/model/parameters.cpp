#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/rng.h"
#include "kernels/model_ops.h"
#include "kernels/optimizer_ops.h"
#include "model/families/family.h"

namespace ebb::model {
namespace {

using Start = Parameter::Start;

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// Lays parameters one after the other in a block and says where they went.
class BlockWriter {
 public:
  BlockWriter(Parameters& parameters, ParameterBlock block, std::string prefix)
      : parameters_(parameters), prefix_(std::move(prefix)) {
    parameters_.blocks.push_back(std::move(block));
  }

  std::int64_t matrix(std::string_view name, std::int64_t rows, std::int64_t cols,
                      bool residual = false) {
    return add({.name = fmt::format("{}{}.weight", prefix_, name),
                .rows = rows,
                .cols = cols,
                .matrix = true,
                .residual = residual});
  }
  std::int64_t vector(std::string_view name, std::string_view kind, std::int64_t count,
                      Start start) {
    return add(
        {.name = fmt::format("{}{}.{}", prefix_, name, kind), .rows = count, .start = start});
  }
  NormPlace norm(std::string_view name, std::int64_t width, const Config& c) {
    NormPlace place;
    place.weight = vector(name, "weight", width, c.norm_offset == 0 ? Start::ones : Start::zeros);
    if (c.norm == Config::NormKind::layer) place.bias = vector(name, "bias", width, Start::zeros);
    return place;
  }

 private:
  std::int64_t add(Parameter parameter) {
    ParameterBlock& block = parameters_.blocks.back();
    parameter.block = static_cast<int>(parameters_.blocks.size()) - 1;
    parameter.first = block.length;
    block.length = block_length(block.length + parameter.count());
    block.parameters.push_back(static_cast<int>(parameters_.all.size()));
    parameters_.all.push_back(std::move(parameter));
    return parameters_.all.back().first;
  }

  Parameters& parameters_;
  std::string prefix_;
};

// A linear layer on its way into a block: weights come first, biases later.
struct Linear {
  std::string_view name;
  std::int64_t in, out;
  bool bias;
  bool residual = false;
  LinearPlace place = {};
};

// One layer of all of them, if they follow each other in memory.
std::vector<LinearPlace> join(const std::vector<Linear>& parts, const Config& c) {
  std::vector<LinearPlace> apart;
  LinearPlace joined = parts.front().place;
  joined.out = 0;
  bool together = true;
  for (const Linear& part : parts) {
    const LinearPlace& place = part.place;
    together &= place.weight == joined.weight + joined.in * joined.out;
    together &= !part.bias || place.bias == joined.bias + joined.out;
    joined.out += place.out;
    apart.push_back(place);
  }
  if (parts.size() > 1 && (!together || c.weights_in_by_out)) return apart;
  return {joined};
}

// The linear layers of a transformer block.
struct Linears {
  std::vector<Linear> qkv, o, up, down;
};

Linears linears_of(const Config& c) {
  const ParameterNames& names = family(c.family).parameters;
  Linears linears;
  linears.o = {{names.o, c.query_width(), c.hidden, c.o_bias, true}};
  linears.down = {{names.down, c.intermediate, c.hidden, c.mlp_bias, true}};
  if (!names.qkv.empty()) {
    linears.qkv = {{names.qkv, c.hidden, c.qkv_width(), c.qkv_bias}};
  } else {
    linears.qkv = {{names.q, c.hidden, c.query_width(), c.qkv_bias},
                   {names.k, c.hidden, c.kv_width(), c.qkv_bias},
                   {names.v, c.hidden, c.kv_width(), c.qkv_bias}};
  }
  if (c.gated) linears.up.push_back({names.gate, c.hidden, c.intermediate, c.mlp_bias});
  linears.up.push_back({names.up, c.hidden, c.intermediate, c.mlp_bias});
  return linears;
}

// Matrices first: a chunk then holds decaying or resting parameters with one border at most.
void write_linears(BlockWriter& block, const Config& c,
                   std::initializer_list<std::vector<Linear>*> groups) {
  const auto each = [&](const auto& visit) {
    for (auto* group : groups) {
      for (Linear& linear : *group) visit(linear);
    }
  };
  each([&](Linear& l) {
    const auto [rows, cols] = c.weights_in_by_out ? std::pair{l.in, l.out} : std::pair{l.out, l.in};
    l.place = {.in = l.in, .out = l.out, .weight = block.matrix(l.name, rows, cols, l.residual)};
  });
  each([&](Linear& l) {
    if (l.bias) l.place.bias = block.vector(l.name, "bias", l.out, Start::zeros);
  });
}

ParameterBlock layer_block(std::int64_t layer, ParameterBlock::Half half, std::string_view name) {
  return {.kind = ParameterBlock::Kind::layer,
          .half = half,
          .layer = static_cast<int>(layer),
          .name = fmt::format("block {}{}", layer, name)};
}

void write_head_norms(BlockWriter& block, const Config& c, BlockPlaces& places) {
  if (!c.qk_norm) return;
  const ParameterNames& names = family(c.family).parameters;
  places.q_norm = block.norm(names.q_norm, c.head_dim, c);
  places.k_norm = block.norm(names.k_norm, c.head_dim, c);
}

BlockPlaces write_block(Parameters& parameters, const Config& c, std::int64_t layer, BlockCut cut) {
  using Half = ParameterBlock::Half;
  const ParameterNames& names = family(c.family).parameters;
  const std::string prefix =
      fmt::format("{}{}", names.prefix, fmt::format(fmt::runtime(names.layer), layer));
  Linears l = linears_of(c);
  BlockPlaces places;
  if (cut == BlockCut::whole) {
    BlockWriter block(parameters, layer_block(layer, Half::both, ""), prefix);
    write_linears(block, c, {&l.qkv, &l.o, &l.up, &l.down});
    places.input_norm = block.norm(names.input_norm, c.hidden, c);
    places.post_norm = block.norm(names.post_norm, c.hidden, c);
    write_head_norms(block, c, places);
  } else {
    BlockWriter attention(parameters, layer_block(layer, Half::attention, " attention"), prefix);
    write_linears(attention, c, {&l.qkv, &l.o});
    places.input_norm = attention.norm(names.input_norm, c.hidden, c);
    write_head_norms(attention, c, places);
    BlockWriter mlp(parameters, layer_block(layer, Half::mlp, " mlp"), prefix);
    write_linears(mlp, c, {&l.up, &l.down});
    places.post_norm = mlp.norm(names.post_norm, c.hidden, c);
  }
  const int last = cut == BlockCut::whole ? 1 : 2;
  for (int b = 1; b <= last; ++b) {
    places.length += parameters.blocks[parameters.blocks.count() - b].length;
  }
  places.qkv = join(l.qkv, c);
  places.o = l.o.front().place;
  places.up = join(l.up, c);
  places.down = l.down.front().place;
  return places;
}

}  // namespace

std::int64_t Parameters::count() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : all) total += parameter.count();
  return total;
}

Parameters parameters_of(const Config& config, BlockCut cut) {
  const ParameterNames& names = family(config.family).parameters;
  const std::string prefix(names.prefix);
  Parameters parameters;
  BlockWriter embedding(parameters, {.kind = ParameterBlock::Kind::embedding, .name = "embedding"},
                        prefix);
  embedding.matrix(names.embedding, config.vocabulary, config.hidden);
  if (config.positions == Config::Positions::learned) {
    embedding.matrix(names.positions, config.max_positions, config.hidden);
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    write_block(parameters, config, layer, cut);
  }
  BlockWriter head(parameters, {.kind = ParameterBlock::Kind::head, .name = "head"}, "");
  if (!config.tied) head.matrix(names.head, config.vocabulary, config.hidden);
  head.norm(prefix + std::string(names.final_norm), config.hidden, config);
  return parameters;
}

std::string canonical_name(const Config& config, std::string_view in_file) {
  const ParameterNames& names = family(config.family).parameters;
  for (const std::string_view buffer : {"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"}) {
    if (in_file.ends_with(buffer)) return {};
  }
  const std::string head = fmt::format("{}.weight", names.head);
  if (in_file == head) return config.tied ? std::string{} : head;
  if (in_file.starts_with(names.prefix)) return std::string(in_file);
  return fmt::format("{}{}", names.prefix, in_file);
}

BlockPlaces block_places(const Config& config, BlockCut cut) {
  Parameters parameters;
  return write_block(parameters, config, 0, cut);
}

VocabularyPieces vocabulary_pieces(const Config& config) {
  constexpr std::int64_t fewest = 32768;  // of a vocabulary that is worth it
  if (config.vocabulary < fewest) return {.rows = config.vocabulary, .count = 1};
  // Matrices of pieces are aligned for any kernel, and so are the chunks' borders.
  const std::int64_t grain = std::max<std::int64_t>(
      64, kernels::kNormBlock / std::gcd(kernels::kNormBlock, config.hidden));
  const auto parts = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t rows = parts(parts(config.vocabulary, kernels::kMostPieces), grain) * grain;
  return {.rows = rows, .count = static_cast<int>(parts(config.vocabulary, rows))};
}

std::int64_t positions_place(const Config& config) {
  return block_length(config.vocabulary * config.hidden);
}

NormPlace last_norm_alone(const Config& config) {
  NormPlace place{.weight = 0};
  if (config.norm == Config::NormKind::layer) place.bias = block_length(config.hidden);
  return place;
}

NormPlace head_norm_place(const Config& config) {
  NormPlace place = last_norm_alone(config);
  const std::int64_t before = config.tied ? 0 : block_length(config.vocabulary * config.hidden);
  place.weight += before;
  if (place.bias != kNowhere) place.bias += before;
  return place;
}

void Initializer::fill(const Parameter& parameter, std::int64_t first, std::int64_t count,
                       float* out) const {
  if (parameter.start != Start::normal) {
    const float value = parameter.start == Start::ones ? 1.0f : 0.0f;
    for (std::int64_t i = 0; i < count; ++i) out[i] = value;
    return;
  }
  // Projections back into the residual stream start smaller, so that its variance does not grow
  // with the depth.
  const double deviation =
      config_.initializer_range /
      (parameter.residual ? std::sqrt(2.0 * static_cast<double>(config_.layers)) : 1.0);
  const CounterRng rng(seed_, hash_name(parameter.name));
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(deviation * rng.normal(static_cast<std::uint64_t>(first + i)));
  }
}

}  // namespace ebb::model
