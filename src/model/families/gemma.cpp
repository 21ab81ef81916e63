// Gemma (the first): scaled embeddings, norms that store the distance from 1, a gated GELU.
#include <fmt/format.h>

#include "base/in_quotes.h"

#include "model/families/family.h"
#include "model/families/rotary.h"

namespace ebb::model {
namespace {

void features(Config& config) {
  config.head_dim = 256;
  config.norm_offset = 1.0;
  config.activation = Config::Activation::gelu_tanh;
  config.scaled_embeddings = true;
  config.tied = true;
}

void read(const Fields& fields, Config& config) {
  read_rope(fields, config);
  read_attention_bias(fields, config);
  fields.refuse_if("use_bidirectional_attention");
  // The first files say "gelu" and mean its approximation; `hidden_activation` came later.
  const std::string said = fields.string("hidden_activation", "gelu_pytorch_tanh");
  if (said != "gelu_pytorch_tanh") {
    fields.refuse(fmt::format("hidden_activation {} is not supported", in_quotes(said)));
  }
  if (config.activation == Config::Activation::gelu) {
    config.activation = Config::Activation::gelu_tanh;
  }
}

void write(const Config& config, Json& json) {
  write_rope(config, json);
  json["attention_bias"] = config.qkv_bias;
}

}  // namespace

const Family kGemma{.name = "gemma",
                    .architecture = "GemmaForCausalLM",
                    .features = features,
                    .read = read,
                    .write = write};

}  // namespace ebb::model
