// What a family of models is: a name for some features of Config, the names of its fields in
// config.json and of its parameters in files. Each is one small file of this folder and one line of
// registry.cpp; docs/extending.md says how to add one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/config.h"
#include "model/families/fields.h"

namespace ebb::model {

// The fields of config.json that every family has in some spelling. Null where a family has none.
struct ShapeFields {
  const char* hidden = "hidden_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  const char* head_dim = "head_dim";
  const char* intermediate = "intermediate_size";
  const char* vocabulary = "vocab_size";
  const char* max_positions = "max_position_embeddings";
  const char* norm_epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";
};

// Names of parameters without ".weight" and ".bias". Those of blocks stand after `prefix` and
// `layer`, whose {} is the layer's number; the others but the head after `prefix`.
struct ParameterNames {
  std::string_view prefix = "model.";
  std::string_view embedding = "embed_tokens";
  std::string_view positions = "";  // learned ones
  std::string_view final_norm = "norm";
  std::string_view head = "lm_head";
  std::string_view layer = "layers.{}.";
  std::string_view qkv = "";  // of q, k and v side by side in one parameter, where they are
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view o = "self_attn.o_proj";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
  std::string_view input_norm = "input_layernorm";
  std::string_view post_norm = "post_attention_layernorm";
  std::string_view q_norm = "self_attn.q_norm";
  std::string_view k_norm = "self_attn.k_norm";
};

struct Family {
  std::string_view name;          // model_type in config.json
  std::string_view architecture;  // the class in transformers
  // Sets the features that all members have, on top of Config's defaults.
  void (*features)(Config&);
  // The family's own fields, after features and shapes; refuses what Ebb cannot compute.
  void (*read)(const Fields&, Config&);
  void (*write)(const Config&, Json&);
  ShapeFields fields = {};
  ParameterNames parameters = {};
};

extern const Family kLlama, kMistral, kQwen2, kQwen3, kGpt2, kGemma;

std::span<const Family* const> families();
// Throws ConfigError.
const Family& family(std::string_view name);
// Null if there is none.
const Family* find_family(std::string_view name);
// The names of all families, as a list for messages.
std::string family_names();

}  // namespace ebb::model
