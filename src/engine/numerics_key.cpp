#include "engine/numerics_key.h"

#include "base/json.h"
#include "kernels/optimizer_ops.h"

namespace ebb::engine {
namespace {

// The grid of a vocabulary follows from its shape alone: it differs where another version of Ebb
// had none, and no setting would bring that back.
constexpr const char* kVocabularyPiece = "vocabulary_piece";

void compare(const Json& stored, const Json& given, const std::string& path,
             std::vector<KeyDifference>& differences) {
  if (stored.is_object() && given.is_object()) {
    for (const auto& [key, value] : stored.items()) {
      compare(value, given.contains(key) ? given.at(key) : Json(), path + "." + key, differences);
    }
    for (const auto& [key, value] : given.items()) {
      if (!stored.contains(key)) compare(Json(), value, path + "." + key, differences);
    }
    return;
  }
  if (stored == given) return;
  const std::string field = path.substr(1);
  differences.push_back({.field = field,
                         .stored = stored.dump(),
                         .given = given.dump(),
                         .machine = field.starts_with("machine.") || field == kVocabularyPiece});
}

Json rule_key(const states::Rule& rule) {
  Json json = {{"rule", states::name_of(rule)}};
  std::visit(
      [&](const auto& r) {
        if constexpr (requires { r.beta1; }) json["beta1"] = r.beta1;
        if constexpr (requires { r.beta2; }) json["beta2"] = r.beta2;
        if constexpr (requires { r.epsilon; }) json["epsilon"] = r.epsilon;
        if constexpr (requires { r.momentum; }) json["momentum"] = r.momentum;
        if constexpr (requires { r.nesterov; }) json["nesterov"] = r.nesterov;
        json["weight_decay"] = r.weight_decay;
      },
      rule);
  return json;
}

}  // namespace

Json numerics_key(const Runtime& runtime, const TrainingSettings& s, std::uint64_t seed,
                  const Json& data) {
  Json schedule = {{"shape", states::name_of(s.schedule.shape)},
                   {"peak", s.schedule.peak},
                   {"warmup", s.schedule.warmup}};
  // A constant rate does not know where it ends, so such a run may be prolonged.
  if (s.schedule.shape != states::Schedule::Shape::constant) {
    schedule["steps"] = s.schedule.steps;
    schedule["final_share"] = s.schedule.final_share;
    schedule["decay_share"] = s.schedule.decay_share;
  }
  Json optimizer = rule_key(s.rule);
  optimizer["clip"] = s.clip;
  optimizer["schedule"] = schedule;
  const model::Decoder decoder(s.config, s.dtype, s.gradient_type, s.shape);
  Json key = {{"model", model::to_json(s.config, name_of(s.dtype))},
              {"data", data},
              {"seed", seed},
              {"optimizer", optimizer},
              {"dtype", name_of(s.dtype)},
              {"gradients", name_of(s.gradient_type)},
              {kStateFormatField, kernels::stored_name_of(s.format)},
              {"sequence", s.shape.sequence},
              {"micro_batch", s.shape.rows},
              {"accumulate", s.accumulate},
              {"head_slice", decoder.head_slice()},
              {"norm_block", kernels::kNormBlock},
              {"machine", runtime.numerics()}};
  // One group adds as many do that are a micro-batch each.
  if (s.gradient_groups > 1 && s.gradient_groups < s.accumulate) {
    key["gradient_groups"] = s.gradient_groups;
  }
  // Checkpoints of shapes with one tile know nothing of it.
  if (decoder.mlp_tile() < s.shape.tokens()) key["mlp_tile"] = decoder.mlp_tile();
  // The grid of a long vocabulary. Short ones have none, and keep the key that they had before
  // there was one.
  if (decoder.pieces().count > 1) key[kVocabularyPiece] = decoder.pieces().rows;
  return key;
}

std::vector<KeyDifference> compare_keys(const Json& stored, const Json& given) {
  std::vector<KeyDifference> differences;
  compare(stored, given, "", differences);
  return differences;
}

}  // namespace ebb::engine
