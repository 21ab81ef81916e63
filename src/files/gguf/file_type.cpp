#include "files/gguf/file_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

using kernels::WeightType;

constexpr std::array kFileTypes = {
    GgufFileType{"f32", 0, GgufType::f32},        GgufFileType{"f16", 1, GgufType::f16},
    GgufFileType{"bf16", 32, GgufType::bf16},     GgufFileType{"q8_0", 7, WeightType::q8_0},
    GgufFileType{"q4_0", 2, WeightType::q4_0},    GgufFileType{"q4_1", 3, WeightType::q4_1},
    GgufFileType{"q5_0", 8, WeightType::q5_0},    GgufFileType{"q5_1", 9, WeightType::q5_1},
    GgufFileType{"q2_k", 10, WeightType::q2_k},   GgufFileType{"q3_k_s", 11, WeightType::q3_k},
    GgufFileType{"q3_k_m", 12, WeightType::q3_k}, GgufFileType{"q3_k_l", 13, WeightType::q3_k},
    GgufFileType{"q4_k_s", 14, WeightType::q4_k}, GgufFileType{"q4_k_m", 15, WeightType::q4_k},
    GgufFileType{"q5_k_s", 16, WeightType::q5_k}, GgufFileType{"q5_k_m", 17, WeightType::q5_k},
    GgufFileType{"q6_k", 18, WeightType::q6_k},
};

// The middle size is what people mean where they name none.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
    {{"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}}};

// "blk.12.attn_v.weight": 12. None for tensors of no layer.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view prefix = "blk.";
  std::int64_t layer = -1;
  if (name.starts_with(prefix)) {
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  }
  return layer;
}

bool is_of(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// The first and the last eighth of the layers, and every third between them.
bool has_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// What changes a sequence's values costs most: values of attention, what leaves attention and MLP.
WeightType mixed(std::string_view file, WeightType most, const MixedModel& model,
                 std::string_view name) {
  using enum WeightType;
  const std::int64_t layer = layer_of(name), layers = model.layers;
  const std::int64_t queries_of_a_key = model.heads / model.kv_heads;
  if (is_of(name, "attn_v.weight")) {
    WeightType type = most;
    if (file == "q2_k") type = queries_of_a_key >= 4 ? q4_k : q3_k;
    if (file == "q3_k_m") type = layer < 2 ? q5_k : q4_k;
    if (file == "q3_k_l") type = q5_k;
    if (file == "q4_k_s" && layer < 4) type = q5_k;
    if ((file == "q4_k_m" || file == "q5_k_m") && has_more_bits(layer, layers)) type = q6_k;
    // Models of 70B have eight queries for a key, so that these tensors are small.
    const bool large = layers == 80 && (model.architecture == "qwen2" ||
                                        (model.architecture == "llama" && queries_of_a_key > 1));
    if (large && (type == q3_k || type == q4_k)) type = q5_k;
    return type;
  }
  if (is_of(name, "attn_output.weight")) {
    if (file == "q2_k") return q3_k;
    if (file == "q3_k_m") return q4_k;
    if (file == "q3_k_l") return q5_k;
  }
  if (is_of(name, "ffn_down")) {
    if (file == "q2_k") return q3_k;
    if (file == "q3_k_m") return layer < layers / 16 ? q5_k : q4_k;
    if (file == "q3_k_l") return q5_k;
    if (file == "q4_k_s" && layer < layers / 8) return q5_k;
    if ((file == "q4_k_m" || file == "q5_k_m") && has_more_bits(layer, layers)) return q6_k;
  }
  return most;
}

// Of rows that are no whole blocks of 256: the nearest type with blocks of 32.
WeightType with_short_blocks(WeightType type) {
  switch (type) {
    case WeightType::q2_k:
    case WeightType::q3_k: return WeightType::q4_0;
    case WeightType::q4_k: return WeightType::q5_0;
    case WeightType::q5_k: return WeightType::q5_1;
    case WeightType::q6_k: return WeightType::q8_0;
    default: return type;
  }
}

}  // namespace

std::span<const GgufFileType> gguf_file_types() { return kFileTypes; }

const GgufFileType& gguf_file_type(std::string_view word, std::string_view flag) {
  std::string name(word);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [without, with] : kShort) {
    if (name == without) name = with;
  }
  const auto found = std::ranges::find(kFileTypes, name, &GgufFileType::name);
  if (found != kFileTypes.end()) return *found;
  std::vector<std::string_view> names;
  std::ranges::transform(kFileTypes, std::back_inserter(names), &GgufFileType::name);
  throw ConfigError(fmt::format("{} {}: expected one of {}", flag, in_quotes(std::string(word)),
                                fmt::join(names, ", ")));
}

MixedType type_in_file(const GgufFileType& file, const MixedModel& model, std::string_view name,
                       std::span<const std::int64_t> shape) {
  if (shape.size() < 2) return {GgufType::f32};
  if (!in_blocks(file.type)) return {file.type};
  const std::int64_t columns = shape.back();
  const auto fits = [&](WeightType type) { return columns % kernels::grain_of(type).per == 0; };
  WeightType type = file.type;
  const bool head = name == "output.weight" || (model.tied && name == "token_embd.weight");
  if (head) {
    type = fits(type) && type != WeightType::q8_0 ? WeightType::q6_k : WeightType::q8_0;
  } else if (name != "token_embd.weight") {
    type = mixed(file.name, type, model, name);
  }
  if (fits(type)) return {type};
  type = with_short_blocks(type);
  return {fits(type) ? type : GgufType::f16, true};
}

}  // namespace ebb::files
