// GPT-2: layer norms, learned positions, an MLP without a gate, biases everywhere, and weights that
// are stored in x out. Its dropout is not computed: Ebb trains without, and says so.
#include "model/families/family.h"

namespace ebb::model {
namespace {

void features(Config& config) {
  config.positions = Config::Positions::learned;
  config.norm = Config::NormKind::layer;
  config.norm_epsilon = 1e-5;
  config.activation = Config::Activation::gelu_tanh;
  config.gated = false;
  config.max_positions = 1024;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.weights_in_by_out = true;
  config.tied = true;
}

void read(const Fields& fields, Config&) {
  fields.refuse_if("scale_attn_by_inverse_layer_idx");
  fields.refuse_if("reorder_and_upcast_attn");
  fields.refuse_if("add_cross_attention");
  if (!fields.boolean("scale_attn_weights", true)) {
    fields.refuse("scale_attn_weights = false is not supported");
  }
}

void write(const Config& config, Json& json) {
  // The same function under the name that GPT-2's files give it.
  if (config.activation == Config::Activation::gelu_tanh) json["activation_function"] = "gelu_new";
}

}  // namespace

const Family kGpt2{.name = "gpt2",
                   .architecture = "GPT2LMHeadModel",
                   .features = features,
                   .read = read,
                   .write = write,
                   .fields = {.hidden = "n_embd",
                              .layers = "n_layer",
                              .heads = "n_head",
                              .kv_heads = nullptr,
                              .head_dim = nullptr,
                              .intermediate = "n_inner",
                              .max_positions = "n_positions",
                              .norm_epsilon = "layer_norm_epsilon",
                              .activation = "activation_function"},
                   .parameters = {.prefix = "transformer.",
                                  .embedding = "wte",
                                  .positions = "wpe",
                                  .final_norm = "ln_f",
                                  .layer = "h.{}.",
                                  .qkv = "attn.c_attn",
                                  .o = "attn.c_proj",
                                  .up = "mlp.c_fc",
                                  .down = "mlp.c_proj",
                                  .input_norm = "ln_1",
                                  .post_norm = "ln_2"}};

}  // namespace ebb::model
