// Llama 2 and 3, and the many models that took their shape.
#include "model/families/family.h"
#include "model/families/rotary.h"

namespace ebb::model {
namespace {

void read(const Fields& fields, Config& config) {
  read_rope(fields, config);
  read_attention_bias(fields, config);
  config.mlp_bias = fields.boolean("mlp_bias", false);
}

void write(const Config& config, Json& json) {
  write_rope(config, json);
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
}

}  // namespace

const Family kLlama{.name = "llama",
                    .architecture = "LlamaForCausalLM",
                    .features = [](Config&) {},
                    .read = read,
                    .write = write};

}  // namespace ebb::model
