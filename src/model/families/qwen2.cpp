// Qwen2 and Qwen2.5: biases on q, k and v.
#include "model/families/family.h"
#include "model/families/rotary.h"

namespace ebb::model {
namespace {

void read(const Fields& fields, Config& config) {
  read_rope(fields, config);
  read_layer_windows(fields, config);
}

void write(const Config& config, Json& json) {
  write_rope(config, json);
  write_layer_windows(config, json);
}

}  // namespace

const Family kQwen2{.name = "qwen2",
                    .architecture = "Qwen2ForCausalLM",
                    .features = [](Config& config) { config.qkv_bias = true; },
                    .read = read,
                    .write = write};

}  // namespace ebb::model
