// Qwen3 (dense): q and k are normalised head by head; heads have their own width.
#include "model/families/family.h"
#include "model/families/rotary.h"

namespace ebb::model {
namespace {

void features(Config& config) {
  config.qk_norm = true;
  config.head_dim = 128;
}

void read(const Fields& fields, Config& config) {
  read_rope(fields, config);
  read_attention_bias(fields, config);
  read_layer_windows(fields, config);
}

void write(const Config& config, Json& json) {
  write_rope(config, json);
  json["attention_bias"] = config.qkv_bias;
  write_layer_windows(config, json);
}

}  // namespace

const Family kQwen3{.name = "qwen3",
                    .architecture = "Qwen3ForCausalLM",
                    .features = features,
                    .read = read,
                    .write = write};

}  // namespace ebb::model
