#include "measure/bench/training_report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/units.h"
#include "measure/bench/row_words.h"

namespace ebb::measure {
namespace {

// By plan::Site.
constexpr std::array<const char*, 3> kSites = {"resident", "stream", "host"};

// Tokens a second.
double speed(const RowResult& row, double step_seconds) {
  return static_cast<double>(row.row.tokens()) / step_seconds;
}

void add(Json& json, const RowResult& row, const MeasuredPlan& measured) {
  json["plan"] = measured.flags;
  for (std::size_t s = 0; s < kSites.size(); ++s) json["sites"][kSites[s]] = measured.sites[s];
  json["predicted_tokens_per_second"] = speed(row, measured.predicted_seconds);
  json["tokens_per_second"] = speed(row, measured.seconds());
  json["predicted_over_measured"] = measured.seconds() / measured.predicted_seconds;
  json["utilization"] = or_null(measured.utilization);
  json["step_seconds"] = measured.step_seconds;
  json["peaks"] = {{"device", to_json(measured.device)}, {"host", to_json(measured.host)}};
  if (measured.disk) json["peaks"]["disk"] = to_json(*measured.disk);
  json["start_seconds"] = measured.start.json();
  json["weights_digest"] = measured.digest;
}

// `plans` is not empty.
const MeasuredPlan& fastest(const std::vector<MeasuredPlan>& plans) {
  return *std::min_element(
      plans.begin(), plans.end(),
      [](const MeasuredPlan& a, const MeasuredPlan& b) { return a.seconds() < b.seconds(); });
}

// The chosen plan's speed by that of the best hand-made one.
std::optional<double> share_of_best(const RowResult& row) {
  if (!row.chosen || row.hand_made.empty()) return std::nullopt;
  return fastest(row.hand_made).seconds() / row.chosen->seconds();
}

// "62% stream, 38% host, 3 recomputed"
std::string short_plan(const MeasuredPlan& plan) {
  std::string text;
  const auto part = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  for (std::size_t s = 0; s < kSites.size(); ++s) {
    if (plan.sites[s] > 0) part(fmt::format("{:.0f}% {}", 100 * plan.sites[s], kSites[s]));
  }
  if (plan.choices.recompute_blocks > 0)
    part(fmt::format("{} recomputed", plan.choices.recompute_blocks));
  if (plan.choices.host_inputs > 0) part(fmt::format("{} inputs out", plan.choices.host_inputs));
  return text;
}

// "12.3 GiB", or both where prediction and measurement differ.
std::string peak_text(const Peak& peak) {
  if (peak.predicted == peak.measured) return format_bytes(peak.measured);
  return fmt::format("{} ({} B from predicted)", format_bytes(peak.measured),
                     peak.measured - peak.predicted);
}

std::string refusal_text(const RowResult& row) {
  return measure::refusal_text(row.refusal, row.failed);
}

std::string start_of(const TrainingRow& row) {
  return fmt::format("{:>2} {:<14}{:>8} {:<9}{:<6} ", row.number, short_model(row.model),
                     row.tokens(), row.limit == "off" ? "all off" : row.limit, to_word(row.format));
}

std::string hand_made_text(const RowResult& row) {
  std::string text =
      fmt::format("Row {}: the chosen plan has {} of the speed of the best of {} hand-made ones.\n",
                  row.row.number, percent(share_of_best(row)), row.hand_made.size());
  const auto line = [&](const MeasuredPlan& plan, const std::string& name) {
    text += fmt::format("  {:<42}{:<50}{:>10.0f}{:>10.0f}\n", name, short_plan(plan),
                        speed(row, plan.predicted_seconds), speed(row, plan.seconds()));
  };
  line(*row.chosen, "the planner's choice");
  for (const MeasuredPlan& plan : row.hand_made) line(plan, plan.name);
  return text;
}

}  // namespace

Compared compare_rows(std::vector<RowResult>& rows) {
  Compared compared_rows;
  std::string& failure = compared_rows.failure;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowResult& row = rows[i];
    if (!row.chosen) continue;
    const auto differ = [&](const MeasuredPlan& other, const std::string& name) {
      ++compared_rows.pairs;
      if (other.digest == row.chosen->digest) return;
      failure += fmt::format("{}row {} and {} ended with other weights ({} and {})",
                             failure.empty() ? "" : "; ", row.row.number, name, row.chosen->digest,
                             other.digest);
    };
    for (const MeasuredPlan& plan : row.hand_made) differ(plan, "its plan '" + plan.name + "'");
    bool compared = false;  // with the first of its like: then with all
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const RowResult& other = rows[j];
      if (!other.chosen || !row.row.same_numbers(other.row)) continue;
      if (other.row.limit == "resident")
        row.share_of_resident = other.chosen->seconds() / row.chosen->seconds();
      if (j < i && !compared) differ(*other.chosen, fmt::format("row {}", other.row.number));
      compared = true;
    }
  }
  if (!failure.empty()) failure += ": placement must not change the numbers";
  return compared_rows;
}

Json to_json(const RowResult& row) {
  Json json = {{"row", row.row.number},
               {"model", row.row.model},
               {"parameters", row.parameters},
               {"tokens_per_step", row.row.tokens()},
               {"sequence", row.row.sequence},
               {"micro_batch", row.row.micro_batch},
               {"accumulate", row.row.accumulate},
               {"limit", row.row.limit},
               {"state_format", to_word(row.row.format)}};
  if (!row.refusal.empty()) json[row.failed ? "failed" : "does_not_fit"] = row.refusal;
  if (!row.chosen) return json;
  json["model_flops_per_step"] = row.model_flops;
  add(json, row, *row.chosen);
  json["share_of_resident"] = or_null(row.share_of_resident);
  if (row.hand_made.empty()) return json;
  json["share_of_best_hand_made"] = or_null(share_of_best(row));
  for (const MeasuredPlan& plan : row.hand_made) {
    Json other = {{"name", plan.name}};
    add(other, row, plan);
    json["hand_made"].push_back(std::move(other));
  }
  return json;
}

std::string to_line(const RowResult& row) {
  const std::string what =
      fmt::format("row {}, {} {}: ", row.row.number, row.row.model, row.row.limit);
  if (!row.chosen) return what + refusal_text(row);
  return what + fmt::format("{:.0f} tokens/s, predicted {:.0f}; {}",
                            speed(row, row.chosen->seconds()),
                            speed(row, row.chosen->predicted_seconds), row.chosen->flags);
}

std::string to_text(const std::vector<RowResult>& rows) {
  std::size_t width = 6;
  for (const RowResult& row : rows) {
    if (row.chosen) width = std::max(width, short_plan(*row.chosen).size());
  }
  std::string text = fmt::format(
      "{:>2} {:<14}{:>8} {:<9}{:<6} {:<{}}{:>10}{:>10}{:>7}{:>10}{:>8}  {:<11}{:<11}{}\n", "#",
      "model", "tokens", "limit", "states", "plan", width, "predicted", "tokens/s", "ratio",
      "resident", "util", "device", "host", "digest");
  for (const RowResult& row : rows) {
    text += start_of(row.row);
    if (!row.chosen) {
      text += refusal_text(row) + "\n";
      continue;
    }
    const MeasuredPlan& chosen = *row.chosen;
    text += fmt::format("{:<{}}{:>10.0f}{:>10.0f}{:>7.2f}{:>10}{:>8}  {:<11}{:<11}{:.8}\n",
                        short_plan(chosen), width, speed(row, chosen.predicted_seconds),
                        speed(row, chosen.seconds()), chosen.seconds() / chosen.predicted_seconds,
                        percent(row.share_of_resident), percent(chosen.utilization),
                        peak_text(chosen.device), peak_text(chosen.host), chosen.digest);
  }
  for (const RowResult& row : rows) {
    if (row.chosen)
      text += fmt::format("Row {} started: {}\n", row.row.number, row.chosen->start.text());
  }
  for (const RowResult& row : rows) {
    if (row.chosen && !row.hand_made.empty()) text += hand_made_text(row);
  }
  return text;
}

}  // namespace ebb::measure
