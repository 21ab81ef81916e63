#include "model/config.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::model {
namespace {

// Reads fields of a config.json with errors that name the file and the field.
class Fields {
 public:
  Fields(const Json& json, std::string_view where) : json_(json), where_(where) {
    if (!json.is_object()) {
      throw FormatError(
          fmt::format("{}: expected a JSON object with the model's configuration", where));
    }
  }

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }

  std::int64_t integer(const char* key) const {
    if (!has(key)) throw FormatError(fmt::format("{}: '{}' is missing", where_, key));
    if (!json_.at(key).is_number_integer()) wrong(key, "a whole number");
    return json_.at(key).get<std::int64_t>();
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_.at(key).is_number()) wrong(key, "a number");
    return json_.at(key).get<double>();
  }
  bool boolean(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_.at(key).is_boolean()) wrong(key, "true or false");
    return json_.at(key).get<bool>();
  }
  std::string string(const char* key, std::string otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_.at(key).is_string()) wrong(key, "a string");
    return json_.at(key).get<std::string>();
  }
  const Json* object(const char* key) const {
    return has(key) && json_.at(key).is_object() ? &json_.at(key) : nullptr;
  }

 private:
  [[noreturn]] void wrong(const char* key, std::string_view expected) const {
    throw FormatError(fmt::format("{}: '{}' should be {}, found {}", where_, key, expected,
                                  in_quotes(json_.at(key).dump())));
  }

  const Json& json_;
  std::string_view where_;
};

[[noreturn]] void refuse(std::string_view where, std::string_view what) {
  throw ConfigError(fmt::format(
      "{}: {}. Ebb computes the Llama and Qwen2.5 families (model_type 'llama' or 'qwen2').", where,
      what));
}

double read_rope_theta(const Fields& fields, std::string_view where) {
  double theta = fields.number("rope_theta", 10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = fields.object(key);
    if (rope == nullptr) continue;
    const Fields inner(*rope, where);
    const std::string type = inner.string("rope_type", inner.string("type", "default"));
    if (type != "default")
      refuse(where, fmt::format("{} of type {} is not supported", key, in_quotes(type)));
    theta = inner.number("rope_theta", theta);
  }
  return theta;
}

}  // namespace

Config parse_config(const Json& json, std::string_view where) {
  const Fields fields(json, where);
  Config config;
  config.family = fields.string("model_type", "");
  if (config.family != "llama" && config.family != "qwen2") {
    refuse(where, fmt::format("model_type {} is not supported", in_quotes(config.family)));
  }
  if (const auto act = fields.string("hidden_act", "silu"); act != "silu") {
    refuse(where, fmt::format("hidden_act {} is not supported", in_quotes(act)));
  }
  if (fields.boolean("use_sliding_window", false))
    refuse(where, "use_sliding_window is not supported");
  if (fields.boolean("mlp_bias", false)) refuse(where, "mlp_bias is not supported");
  if (config.family == "llama" && fields.boolean("attention_bias", false)) {
    refuse(where, "attention_bias with model_type 'llama' is not supported");
  }
  config.hidden = fields.integer("hidden_size");
  config.layers = fields.integer("num_hidden_layers");
  config.heads = fields.integer("num_attention_heads");
  config.kv_heads = fields.integer("num_key_value_heads", config.heads);
  config.head_dim = fields.integer("head_dim", config.heads > 0 ? config.hidden / config.heads : 0);
  config.intermediate = fields.integer("intermediate_size");
  config.vocabulary = fields.integer("vocab_size");
  config.max_positions = fields.integer("max_position_embeddings", 2048);
  config.rope_theta = read_rope_theta(fields, where);
  config.norm_epsilon = fields.number("rms_norm_eps", 1e-6);
  config.initializer_range = fields.number("initializer_range", 0.02);
  config.qkv_bias = config.family == "qwen2";
  config.tied = fields.boolean("tie_word_embeddings", false);
  check(config, where);
  return config;
}

Json to_json(const Config& config, std::string_view dtype) {
  const bool qwen = config.family == "qwen2";
  return {{"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
          {"model_type", config.family},
          {"hidden_act", "silu"},
          {"hidden_size", config.hidden},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"intermediate_size", config.intermediate},
          {"vocab_size", config.vocabulary},
          {"max_position_embeddings", config.max_positions},
          {"rope_theta", config.rope_theta},
          {"rms_norm_eps", config.norm_epsilon},
          {"initializer_range", config.initializer_range},
          {"tie_word_embeddings", config.tied},
          {"torch_dtype", dtype == "fp32" ? "float32" : "bfloat16"}};
}

void check(const Config& config, std::string_view where) {
  const auto require = [&](bool good, std::string_view what) {
    if (!good) throw ConfigError(fmt::format("{}: {}", where, what));
  };
  constexpr std::int64_t most = std::int64_t{1} << 24;
  for (const auto& [name, value] : {std::pair{"hidden_size", config.hidden},
                                    {"num_hidden_layers", config.layers},
                                    {"num_attention_heads", config.heads},
                                    {"num_key_value_heads", config.kv_heads},
                                    {"head_dim", config.head_dim},
                                    {"intermediate_size", config.intermediate},
                                    {"vocab_size", config.vocabulary},
                                    {"max_position_embeddings", config.max_positions}}) {
    require(value >= 1 && value <= most,
            fmt::format("'{}' is {}; it should be between 1 and {}", name, value, most));
  }
  // A name for every parameter of every block is made; a word in a file must not make billions.
  require(config.layers <= 4096,
          fmt::format("'num_hidden_layers' is {}; at most 4096 are expected", config.layers));
  require(config.query_width() <= most,
          fmt::format("num_attention_heads x head_dim is {}; at most {} is expected",
                      config.query_width(), most));
  const auto hidden = static_cast<double>(config.hidden);
  const double parameters =
      2 * hidden * static_cast<double>(config.vocabulary) +
      static_cast<double>(config.layers) * hidden *
          static_cast<double>(config.qkv_width() + config.query_width() + 3 * config.intermediate);
  require(parameters < 1e13,
          fmt::format("the shapes make {:.1e} parameters; at most 1e13 are expected", parameters));
  require(config.heads % config.kv_heads == 0,
          fmt::format("num_attention_heads ({}) should be a multiple of num_key_value_heads ({})",
                      config.heads, config.kv_heads));
  require(config.head_dim % 2 == 0, fmt::format("head_dim ({}) should be even", config.head_dim));
  require(config.rope_theta > 0 && config.norm_epsilon >= 0,
          "rope_theta should be positive and rms_norm_eps not negative");
}

}  // namespace ebb::model
