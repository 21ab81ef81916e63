#include "engine/opening_lines.h"

#include <algorithm>

#include <fmt/format.h>

#include "plan/explain.h"

namespace ebb::engine {
namespace {

std::string what(const plan::Plan& plan, const TrainingSettings& s, const TrainOptions& o) {
  const std::string parts = s.accumulate > 1 ? fmt::format(" x {}", s.accumulate) : "";
  return fmt::format(
      "What: {}, {} parameters in {}, {} with {} states, {} step{} of {} x {}{} tokens", o.model,
      format_count(plan.workload.parameters()), name_of(s.dtype), states::name_of(s.rule),
      name_of(s.format), o.steps, o.steps == 1 ? "" : "s", s.shape.sequence, s.shape.rows, parts);
}

std::string where(const plan::Plan& plan) {
  std::string text = "Where: ";
  for (const plan::Tier tier : plan.workload.topology->all_tiers()) {
    text += fmt::format("{} {} of {}, ", (*plan.workload.topology)[tier].name,
                        format_bytes(plan.peak(tier)), format_bytes(plan.limits[tier]));
  }
  const plan::Choices& choices = plan.choices;
  const double streamed = choices.offload_fraction - choices.host_fraction;
  if (choices.offload_fraction == 0) {
    text += "all states on the device";
  } else if (choices.host_fraction == 0) {
    text += fmt::format("{:.0f}% of the states streamed", 100 * streamed);
  } else {
    text += fmt::format("{:.0f}% of the states streamed, {:.0f}% updated by the CPU",
                        100 * streamed, 100 * choices.host_fraction);
  }
  const auto blocks = [&](std::int64_t count, std::string_view verb) {
    if (count > 0) text += fmt::format(", {} block{} {}", count, count == 1 ? "" : "s", verb);
  };
  blocks(choices.streamed_weights, "with streamed weights");
  blocks(choices.recompute_blocks, "recomputed");
  return text;
}

std::string how_fast(const plan::Plan& plan, const TrainOptions& o, std::int64_t done) {
  const double seconds = plan.prediction.step_seconds;
  const auto left = static_cast<double>(std::max<std::int64_t>(0, o.steps - done));
  return fmt::format(
      "How fast, as predicted on {}: {:.0f} tokens/s, {} a step, {} in all{}", plan.profile.name,
      plan.tokens_per_second(), format_seconds(seconds), format_seconds(seconds * left),
      plan.profile.matmul_flops.source == "rule of thumb" ? "; ebb probe measures speeds" : "");
}

}  // namespace

std::string opening_lines(const plan::Plan& plan, const TrainingSettings& settings,
                          const TrainOptions& options, std::int64_t done) {
  return fmt::format("{}\n{}\n{}", what(plan, settings, options), where(plan),
                     how_fast(plan, options, done));
}

}  // namespace ebb::engine
