#include "model/config.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "ebb/error.h"
#include "model/families/family.h"

namespace ebb::model {
namespace {

using Activation = Config::Activation;

// The kernels' attention keeps a head in registers or in shared memory.
constexpr std::int64_t kMostHeadDim = 256;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;

struct ActivationName {
  std::string_view name;
  Activation activation;
};
// The first name of an activation is the one that is written.
constexpr std::array kActivations = {ActivationName{"silu", Activation::silu},
                                     ActivationName{"swish", Activation::silu},
                                     ActivationName{"gelu", Activation::gelu},
                                     ActivationName{"gelu_pytorch_tanh", Activation::gelu_tanh},
                                     ActivationName{"gelu_new", Activation::gelu_tanh}};

Activation read_activation(const Fields& fields, const char* key, Activation otherwise) {
  const std::string name = fields.string(key, "");
  if (name.empty()) return otherwise;
  for (const ActivationName& known : kActivations) {
    if (known.name == name) return known.activation;
  }
  std::string names;
  for (const ActivationName& known : kActivations) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  throw ConfigError(fmt::format(
      "{}: {} {} is not an activation function that Ebb computes; it computes {}. Another one in "
      "its place would make another model of these weights",
      fields.where(), key, in_quotes(name), names));
}

std::string_view name_of(Activation activation) {
  for (const ActivationName& known : kActivations) {
    if (known.activation == activation) return known.name;
  }
  return {};
}

void read_shapes(const Fields& fields, const ShapeFields& names, Config& config) {
  config.hidden = fields.integer(names.hidden);
  config.layers = fields.integer(names.layers);
  config.heads = fields.integer(names.heads);
  config.kv_heads = names.kv_heads ? fields.integer(names.kv_heads, config.heads) : config.heads;
  if (config.head_dim == 0 && config.heads > 0) config.head_dim = config.hidden / config.heads;
  if (names.head_dim) config.head_dim = fields.integer(names.head_dim, config.head_dim);
  // Only a family whose MLP has no gate leaves its width to be four times the model's.
  if (config.gated || fields.has(names.intermediate)) {
    config.intermediate = fields.integer(names.intermediate);
  } else if (std::abs(config.hidden) <= kMostWidth) {
    config.intermediate = 4 * config.hidden;
  }
  config.vocabulary = fields.integer(names.vocabulary);
  config.max_positions = fields.integer(names.max_positions, config.max_positions);
  config.norm_epsilon = fields.number(names.norm_epsilon, config.norm_epsilon);
  config.activation = read_activation(fields, names.activation, config.activation);
  config.initializer_range = fields.number("initializer_range", 0.02);
  config.tied = fields.boolean("tie_word_embeddings", config.tied);
}

// Models whose names suggest a family that they are not.
void refuse_relatives(const Fields& fields, std::string_view type) {
  if (type.starts_with("gemma")) {
    fields.refuse(fmt::format(
        "model_type {} is not supported: of the Gemma models Ebb computes the first, 'gemma', "
        "alone, which has no soft caps and no norms behind its layers",
        in_quotes(type)));
  }
  if (type.find("moe") != type.npos || type == "mixtral") {
    fields.refuse(fmt::format("model_type {} is not supported: mixtures of experts are not",
                              in_quotes(type)));
  }
}

}  // namespace

Config parse_config(const Json& json, std::string_view where) {
  const Fields fields(json, where);
  const std::string type = fields.string("model_type", "");
  const Family* found = find_family(type);
  if (found == nullptr) {
    refuse_relatives(fields, type);
    fields.refuse(fmt::format("model_type {} is not supported", in_quotes(type)));
  }
  if (fields.has("quantization_config")) {
    fields.refuse("quantization_config: quantized weights are not supported");
  }
  Config config{.family = type, .max_positions = 2048, .norm_epsilon = 1e-6};
  found->features(config);
  read_shapes(fields, found->fields, config);
  found->read(fields, config);
  check(config, where);
  return config;
}

Json to_json(const Config& config, std::string_view dtype) {
  const Family& own = family(config.family);
  const ShapeFields& names = own.fields;
  Json json{{"architectures", {own.architecture}},
            {"model_type", config.family},
            {names.activation, name_of(config.activation)},
            {names.hidden, config.hidden},
            {names.layers, config.layers},
            {names.heads, config.heads}};
  if (names.kv_heads) json[names.kv_heads] = config.kv_heads;
  if (names.head_dim) json[names.head_dim] = config.head_dim;
  json[names.intermediate] = config.intermediate;
  json[names.vocabulary] = config.vocabulary;
  json[names.max_positions] = config.max_positions;
  json[names.norm_epsilon] = config.norm_epsilon;
  json["initializer_range"] = config.initializer_range;
  own.write(config, json);
  json["tie_word_embeddings"] = config.tied;
  json["dtype"] = dtype == "fp32" ? "float32" : "bfloat16";
  json["torch_dtype"] = json["dtype"];  // the name older readers know
  return json;
}

void check(const Config& config, std::string_view where) {
  const ShapeFields& names = family(config.family).fields;
  const auto require = [&](bool good, std::string_view what) {
    if (!good) throw ConfigError(fmt::format("{}: {}", where, what));
  };
  constexpr std::int64_t most = kMostWidth;
  for (const auto& [name, value] : {std::pair{names.hidden, config.hidden},
                                    {names.layers, config.layers},
                                    {names.heads, config.heads},
                                    {names.kv_heads, config.kv_heads},
                                    {names.head_dim, config.head_dim},
                                    {names.intermediate, config.intermediate},
                                    {names.vocabulary, config.vocabulary},
                                    {names.max_positions, config.max_positions}}) {
    if (name == nullptr) continue;  // follows from the others
    require(value >= 1 && value <= most,
            fmt::format("'{}' is {}; it should be between 1 and {}", name, value, most));
  }
  // A name for every parameter of every block is made; a word in a file must not make billions.
  require(config.layers <= 4096,
          fmt::format("'{}' is {}; at most 4096 are expected", names.layers, config.layers));
  require(config.query_width() <= most, fmt::format("{} x head_dim is {}; at most {} is expected",
                                                    names.heads, config.query_width(), most));
  const auto hidden = static_cast<double>(config.hidden);
  const double parameters =
      hidden * static_cast<double>(2 * config.vocabulary + config.max_positions) +
      static_cast<double>(config.layers) * hidden *
          static_cast<double>(config.qkv_width() + config.query_width() + 3 * config.intermediate);
  require(parameters < 1e13,
          fmt::format("the shapes make {:.1e} parameters; at most 1e13 are expected", parameters));
  require(config.heads % config.kv_heads == 0,
          fmt::format("{} ({}) should be a multiple of num_key_value_heads ({})", names.heads,
                      config.heads, config.kv_heads));
  require(config.head_dim <= kMostHeadDim,
          fmt::format("head_dim ({}) should be at most {}: attention has no wider heads",
                      config.head_dim, kMostHeadDim));
  if (names.head_dim == nullptr) {
    require(config.query_width() == config.hidden,
            fmt::format("{} ({}) should be a multiple of {} ({})", names.hidden, config.hidden,
                        names.heads, config.heads));
  }
  require(config.norm_epsilon >= 0, fmt::format("{} should not be negative", names.norm_epsilon));
  require(config.windows.empty() || config.windows.count() == config.layers,
          fmt::format("there are {} windows for {} layers", config.windows.size(), config.layers));
  if (config.positions == Config::Positions::learned) return;
  require(config.head_dim % 2 == 0, fmt::format("head_dim ({}) should be even", config.head_dim));
  require(config.rope_theta > 0, "rope_theta should be positive");
  const RopeScaling& scaling = config.rope_scaling;
  require(scaling.factor > 0, "the factor of rope_scaling should be positive");
  require(scaling.low > 0 && scaling.high > scaling.low && scaling.original > 0,
          "in rope_scaling, low_freq_factor and original_max_position_embeddings should be "
          "positive and high_freq_factor above low_freq_factor");
}

}  // namespace ebb::model
