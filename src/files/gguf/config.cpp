#include "files/gguf/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "kernels/reference/weight_blocks.h"
#include "model/config.h"

namespace ebb::files {
namespace {

// Factors of rotary positions are read before the model is known to be one that Ebb computes.
constexpr std::int64_t kWidestHead = 4096;

// Architectures and the families that compute them.
constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "qwen2", "qwen3", "gemma"};

// Keys of an architecture that are read here, or that change nothing that is computed.
constexpr std::array<std::string_view, 21> kKnownKeys = {"block_count",
                                                         "context_length",
                                                         "embedding_length",
                                                         "feed_forward_length",
                                                         "vocab_size",
                                                         "attention.head_count",
                                                         "attention.head_count_kv",
                                                         "attention.key_length",
                                                         "attention.value_length",
                                                         "attention.layer_norm_rms_epsilon",
                                                         "attention.sliding_window",
                                                         "attention.causal",
                                                         "rope.freq_base",
                                                         "rope.dimension_count",
                                                         "rope.scaling.type",
                                                         "rope.scaling.factor",
                                                         "rope.scaling.original_context_length",
                                                         "rope.scaling.finetuned",
                                                         "rope.scale_linear",
                                                         "expert_count",
                                                         "expert_used_count"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kLayerNames = {{
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
}};

// Files hold fp32 numbers, which people wrote as decimal ones: 1e-05, not 9.99999974e-06.
double as_written(double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) return value;
  const std::string digits = fmt::format("{}", narrow);
  // The C library's functions would read another decimal point in another language's locale.
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// The keys of one architecture.
class Keys {
 public:
  explicit Keys(const GgufFiles& files)
      : files_(files), architecture_(files.try_text("general.architecture").value_or("")) {}

  const std::string& architecture() const { return architecture_; }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return files_.find_value(key(name)) != nullptr; }

  std::optional<std::int64_t> try_integer(std::string_view name) const {
    return files_.try_integer(key(name));
  }
  std::int64_t integer(std::string_view name) const {
    const auto value = try_integer(name);
    if (!value) files_.refuse(fmt::format("{} is missing", key(name)));
    return *value;
  }
  std::optional<double> try_number(std::string_view name) const {
    const auto value = files_.try_number(key(name));
    if (!value) return std::nullopt;
    if (!std::isfinite(*value)) files_.refuse(fmt::format("{} is {}", key(name), *value));
    return as_written(*value);
  }

  // The model is sound, but not one that Ebb computes.
  [[noreturn]] void refuse(std::string_view what) const {
    throw ConfigError(
        fmt::format("'{}': {}. Of GGUF files Ebb computes the architectures {}, dense ones.",
                    files_.path().string(), what, fmt::join(kArchitectures, ", ")));
  }

  void check() const {
    if (architecture_.empty()) files_.refuse("general.architecture is missing");
    if (std::ranges::find(kArchitectures, architecture_) == kArchitectures.end()) {
      refuse(fmt::format("the architecture {} is not supported", in_quotes(architecture_)));
    }
    const std::string prefix = architecture_ + ".";
    for (const auto& [name, value] : files_.parts().front().header.values) {
      if (!name.starts_with(prefix)) continue;
      const auto rest = std::string_view(name).substr(prefix.size());
      if (std::ranges::find(kKnownKeys, rest) == kKnownKeys.end()) {
        refuse(fmt::format("the key {} is not known, and may change what the model computes",
                           in_quotes(name)));
      }
    }
    if (try_integer("expert_count").value_or(0) != 0) {
      refuse("mixtures of experts (expert_count) are not supported");
    }
    if (!files_.try_boolean(key("attention.causal")).value_or(true)) {
      refuse("attention that is not causal is not supported");
    }
  }

 private:
  const GgufFiles& files_;
  std::string architecture_;
};

// Of two dimensions, so many rows.
std::int64_t rows_of(const GgufFiles& files, std::string_view name) {
  const GgufTensor* tensor = files.find(name).tensor;
  if (tensor == nullptr) files.refuse(fmt::format("tensor {} is missing", name));
  if (tensor->shape.size() != 2) {
    files.refuse(
        fmt::format("tensor {} has {} dimensions, expected 2", name, tensor->shape.size()));
  }
  return tensor->shape.front();
}

// Files have the stretch of Llama 3.1 as one factor for each frequency. They are compared with what
// its formula gives for the constants that all of these models have.
Json rotary_factors(const GgufFiles& files, const Keys& keys, std::int64_t head_dim, double theta) {
  const auto [part, tensor] = files.find(kGgufRotaryFactors);
  if (tensor == nullptr) return nullptr;
  const auto refuse = [&](std::string_view why) {
    keys.refuse(fmt::format("{} {}; factors are supported where they are those of Llama 3.1 to 3.3",
                            kGgufRotaryFactors, why));
  };
  if (tensor->count() != head_dim / 2 || head_dim > kWidestHead) {
    refuse(fmt::format("has {} factors for {} frequencies", tensor->count(), head_dim / 2));
  }
  std::vector<std::byte> stored(to_size(tensor->bytes));
  std::vector<float> factors(to_size(tensor->count()));
  part->file->read(tensor->offset, stored);
  kernels::widen_blocks(tensor->type, stored, factors);
  constexpr double low = 1, high = 4, original = 8192;
  const double factor = factors.back();
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double wavelength =
        2 * std::numbers::pi *
        std::pow(theta, 2 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    const double expected = 1 / ((1 - smooth) / factor + smooth);
    if (!(std::abs(factors[i] - expected) <= 1e-4 * expected)) {
      refuse(fmt::format("has the factor {} for frequency {}, expected {:.6g}", factors[i], i,
                         expected));
    }
  }
  if (factor == 1) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", as_written(factor)},
          {"low_freq_factor", low},
          {"high_freq_factor", high},
          {"original_max_position_embeddings", static_cast<std::int64_t>(original)}};
}

void add_positions(const GgufFiles& files, const Keys& keys, std::int64_t head_dim, Json& json) {
  const double theta = keys.try_number("rope.freq_base").value_or(10000.0);
  json["rope_theta"] = theta;
  if (const auto turned = keys.try_integer("rope.dimension_count");
      turned.value_or(head_dim) != head_dim) {
    keys.refuse(fmt::format("rotary positions in {} of {} dimensions are not supported", *turned,
                            head_dim));
  }
  // Files that name a factor and no type mean the linear one, which was there first.
  const bool stretched = keys.has("rope.scaling.factor") || keys.has("rope.scale_linear");
  const std::string type =
      files.try_text(keys.key("rope.scaling.type")).value_or(stretched ? "linear" : "none");
  const Json factors = rotary_factors(files, keys, head_dim, theta);
  if (type == "linear") {
    const auto factor = keys.try_number("rope.scaling.factor");
    const double stretch = factor ? *factor : keys.try_number("rope.scale_linear").value_or(1.0);
    if (stretch != 1 && !factors.is_null()) keys.refuse("two scalings of rotary positions");
    if (stretch != 1) json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", stretch}};
  } else if (type != "none") {
    keys.refuse(
        fmt::format("rotary positions with scaling of type {} are not supported (linear "
                    "and Llama 3.1's are)",
                    in_quotes(type)));
  }
  if (!factors.is_null()) json["rope_scaling"] = factors;
}

}  // namespace

Json gguf_config(const GgufFiles& files) {
  const Keys keys(files);
  keys.check();
  const std::int64_t hidden = keys.integer("embedding_length");
  const std::int64_t heads = keys.integer("attention.head_count");
  if (heads < 1) files.refuse(fmt::format("{} is {}", keys.key("attention.head_count"), heads));
  const std::int64_t head_dim = keys.try_integer("attention.key_length").value_or(hidden / heads);
  const auto value_dim = keys.try_integer("attention.value_length");
  if (value_dim.value_or(head_dim) != head_dim) {
    keys.refuse("heads whose values are not as wide as their keys are not supported");
  }
  const auto there = [&](std::string_view tensor) { return files.find(tensor).tensor != nullptr; };
  // Mistral's files are Llama's, some of them with a window.
  const std::int64_t window = keys.try_integer("attention.sliding_window").value_or(0);
  const bool windowed = window != 0;
  if (windowed && keys.architecture() != "llama") {
    keys.refuse(fmt::format("{} is not supported", keys.key("attention.sliding_window")));
  }
  Json json{{"model_type", windowed ? std::string("mistral") : keys.architecture()},
            {"hidden_size", hidden},
            {"num_hidden_layers", keys.integer("block_count")},
            {"num_attention_heads", heads},
            {"num_key_value_heads", keys.try_integer("attention.head_count_kv").value_or(heads)},
            {"head_dim", head_dim},
            {"intermediate_size", keys.integer("feed_forward_length")},
            {"vocab_size", rows_of(files, "token_embd.weight")},
            {"max_position_embeddings", keys.integer("context_length")},
            {"tie_word_embeddings", !there("output.weight")}};
  if (const auto epsilon = keys.try_number("attention.layer_norm_rms_epsilon")) {
    json["rms_norm_eps"] = *epsilon;
  } else {
    files.refuse(fmt::format("{} is missing", keys.key("attention.layer_norm_rms_epsilon")));
  }
  if (windowed) json["sliding_window"] = window;
  if (keys.architecture() != "qwen2") json["attention_bias"] = there("blk.0.attn_q.bias");
  if (keys.architecture() == "llama") json["mlp_bias"] = there("blk.0.ffn_up.bias");
  add_positions(files, keys, head_dim, json);
  return json;
}

std::string gguf_name(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view kind = parameter.substr(dot);  // .weight or .bias
  std::string_view name = parameter.substr(0, dot);
  if (name == "model.embed_tokens") return fmt::format("token_embd{}", kind);
  if (name == "model.norm") return fmt::format("output_norm{}", kind);
  if (name == "lm_head") return fmt::format("output{}", kind);
  constexpr std::string_view layers = "model.layers.";
  if (!name.starts_with(layers)) return {};
  name.remove_prefix(layers.size());
  const std::size_t end = name.find('.');
  if (end == std::string_view::npos) return {};
  for (const auto& [ours, theirs] : kLayerNames) {
    if (name.substr(end + 1) == ours)
      return fmt::format("blk.{}.{}{}", name.substr(0, end), theirs, kind);
  }
  return {};
}

bool pairs_rotated_rows(const GgufFiles& files) {
  return files.try_text("general.architecture") == "llama";
}

bool is_rotated_in_gguf(std::string_view tensor) {
  return tensor.find(".attn_q.") != std::string_view::npos ||
         tensor.find(".attn_k.") != std::string_view::npos;
}

bool is_norm_in_gguf(std::string_view tensor) {
  return tensor.find("_norm.") != std::string_view::npos;
}

}  // namespace ebb::files
