#include "model/families/rotary.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::model {
namespace {

Json scaling_json(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::none: return {{"rope_type", "default"}};
    case RopeScaling::Kind::linear: return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeScaling::Kind::llama3: break;
  }
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low},
          {"high_freq_factor", scaling.high},
          {"original_max_position_embeddings", scaling.original}};
}

RopeScaling read_scaling(const Fields& rope) {
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  if (type == "default") return {};
  if (type == "linear") {
    return {.kind = RopeScaling::Kind::linear, .factor = rope.number("factor")};
  }
  if (type == "llama3") {
    return {.kind = RopeScaling::Kind::llama3,
            .factor = rope.number("factor"),
            .low = rope.number("low_freq_factor"),
            .high = rope.number("high_freq_factor"),
            .original = rope.integer("original_max_position_embeddings")};
  }
  rope.refuse(fmt::format(
      "rotary positions with rope_scaling of type {} are not supported (linear and llama3 are)",
      in_quotes(type)));
}

}  // namespace

void read_rope(const Fields& fields, Config& config) {
  config.rope_theta = fields.number("rope_theta", config.rope_theta);
  const auto refuse_partial = [&](const Fields& from) {
    if (from.number("partial_rotary_factor", 1.0) != 1.0) {
      from.refuse("a partial_rotary_factor other than 1 is not supported");
    }
  };
  refuse_partial(fields);
  // Where both are there, transformers takes the older one.
  const Json* json = fields.object("rope_scaling");
  if (json == nullptr || json->empty()) json = fields.object("rope_parameters");
  if (json == nullptr) return;
  for (const auto& [key, value] : json->items()) {
    if (value.is_object()) {
      fields.refuse(
          fmt::format("rope_parameters by type of layer ({}) are not supported", in_quotes(key)));
    }
  }
  const std::string where = fmt::format("{}: in rope_scaling or rope_parameters", fields.where());
  const Fields rope(*json, where);
  refuse_partial(rope);
  config.rope_theta = rope.number("rope_theta", config.rope_theta);
  config.rope_scaling = read_scaling(rope);
}

void write_rope(const Config& config, Json& json) {
  const Json scaling = scaling_json(config.rope_scaling);
  json["rope_theta"] = config.rope_theta;
  if (config.rope_scaling.kind != RopeScaling::Kind::none) {
    json["rope_scaling"] = scaling;
    json["rope_scaling"]["rope_theta"] = config.rope_theta;
  }
  json["rope_parameters"] = scaling;
  json["rope_parameters"]["rope_theta"] = config.rope_theta;
}

void read_attention_bias(const Fields& fields, Config& config) {
  config.qkv_bias = config.o_bias = fields.boolean("attention_bias", false);
}

std::int64_t read_window(const Fields& fields, std::int64_t otherwise) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  const std::int64_t window = fields.integer("sliding_window", otherwise);
  if (window < 1 || window > most) {
    throw FormatError(fmt::format("{}: 'sliding_window' is {}; it should be between 1 and {}",
                                  fields.where(), window, most));
  }
  return window;
}

void read_layer_windows(const Fields& fields, Config& config) {
  constexpr std::string_view full = "full_attention", sliding = "sliding_attention";
  const bool used = fields.boolean("use_sliding_window", false) && fields.has("sliding_window");
  const std::int64_t window = used ? read_window(fields, 0) : 0;
  const std::int64_t first = fields.integer("max_window_layers", 28);
  const Json* types = fields.array("layer_types");
  if (types != nullptr && static_cast<std::int64_t>(types->size()) != config.layers) {
    throw FormatError(fmt::format("{}: 'layer_types' has {} entries for {} layers", fields.where(),
                                  types->size(), config.layers));
  }
  if (!used && types == nullptr) return;
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(config.layers, 4096); ++layer) {
    bool slides = layer >= first;
    if (types != nullptr) {
      const Json& type = (*types)[to_size(layer)];
      slides = type == sliding;
      if (!slides && type != full) {
        fields.refuse(fmt::format("'layer_types' has {}; only {} and {} are supported",
                                  in_quotes(type.dump()), full, sliding));
      }
    }
    if (slides && !used) {
      throw FormatError(fmt::format("{}: 'layer_types' has {}, but there is no 'sliding_window'",
                                    fields.where(), sliding));
    }
    windows.push_back(slides ? window : 0);
  }
  if (std::any_of(windows.begin(), windows.end(), [](auto w) { return w != 0; })) {
    config.windows = std::move(windows);
  }
}

void write_layer_windows(const Config& config, Json& json) {
  const auto& windows = config.windows;
  const auto first = std::find_if(windows.begin(), windows.end(), [](auto w) { return w != 0; });
  json["use_sliding_window"] = first != windows.end();
  json["sliding_window"] = first != windows.end() ? Json(*first) : Json(nullptr);
  json["max_window_layers"] = first - windows.begin();
  if (first == windows.end()) return;
  json["layer_types"] = Json::array();
  for (const std::int64_t window : windows) {
    json["layer_types"].push_back(window == 0 ? "full_attention" : "sliding_attention");
  }
}

}  // namespace ebb::model
