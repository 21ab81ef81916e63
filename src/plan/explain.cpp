#include "plan/explain.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"
#include "plan/choice_table.h"
#include "plan/utilization.h"

namespace ebb::plan {
namespace {

// By name, in the order in which they were given; the program last.
List<std::pair<std::string, Limits>> extras_of(const Plan& plan) {
  List<std::pair<std::string, Limits>> rows;
  const auto add = [&](const Extra& extra) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const auto& known) { return known.first == extra.name; });
    if (row == rows.end()) row = rows.insert(rows.end(), {extra.name, Limits{}});
    row->second[extra.tier] += extra.bytes;
  };
  for (const Extra& extra : plan.workload.extras) add(extra);
  add({Tier::host, std::string(kPlanExtra),
       beside_arena(plan.program, plan.workload, Tier::host) - plan.workload.extra(Tier::host)});
  return rows;
}

// A row of a table with a column for each tier; `bytes` says what stands there.
template <class BytesOf>
std::string tier_row(const Plan& plan, std::string_view name, BytesOf bytes) {
  std::string text = fmt::format("  {:<24}", name);
  for (const Tier tier : plan.workload.topology->all_tiers()) {
    text += fmt::format("{:>14}", bytes(tier));
  }
  return text + "\n";
}

std::string or_dash(Bytes bytes) { return bytes == 0 ? std::string("-") : format_bytes(bytes); }

}  // namespace

std::string memory_table(const Plan& plan) {
  PerTier<std::map<Purpose, Bytes>> peak;
  PerTier<Bytes> holes;
  Bytes all_holes = 0;
  for (const Tier tier : plan.workload.topology->all_tiers()) {
    peak[tier] = bytes_at_peak(plan, tier);
    holes[tier] = plan.layout.size_of(tier);
    for (const auto& [purpose, bytes] : peak[tier]) holes[tier] -= bytes;
    all_holes += holes[tier];
  }
  std::string text = tier_row(plan, "at the peak",
                              [&](Tier tier) { return (*plan.workload.topology)[tier].name; });
  for (const Purpose purpose : kPurposes) {
    const auto has = [&](Tier tier) { return peak[tier].contains(purpose); };
    if (std::ranges::none_of(plan.workload.topology->all_tiers(), has)) continue;
    text += tier_row(plan, name_of(purpose), [&](Tier tier) {
      const auto found = peak[tier].find(purpose);
      return or_dash(found == peak[tier].end() ? 0 : found->second);
    });
  }
  if (all_holes > 0) {
    text += tier_row(plan, "holes", [&](Tier tier) { return format_bytes(holes[tier]); });
  }
  for (const auto& [name, bytes] : extras_of(plan)) {
    if (bytes == Limits{}) continue;
    text += tier_row(plan, name, [&](Tier tier) { return or_dash(bytes[tier]); });
  }
  text += tier_row(plan, "needed", [&](Tier tier) { return format_bytes(plan.peak(tier)); });
  return text + tier_row(plan, "limit", [&](Tier tier) { return format_bytes(plan.limits[tier]); });
}

namespace {

// Kinds of work of the compute lane, and the seconds of each.
List<std::pair<std::string_view, double>> compute_work(const Plan& plan) {
  Cost all;
  double reading = 0;
  for (const Task& task : plan.program.tasks) {
    if (task.lane != Lane::compute) continue;
    all += task.cost;
    reading += reading_seconds(task.cost, plan.profile);
  }
  List<std::pair<std::string_view, double>> work;
  for (const ProfileField& field : profile_fields()) {
    work.emplace_back(field.label, seconds_of(all, field, plan.profile));
  }
  work.emplace_back("weights and cache, read", reading);
  std::erase_if(work, [](const auto& part) { return part.second == 0; });
  return work;
}

// 1.23e13 and "FLOP/s": "12.3 TFLOP/s"; seconds are few.
std::string format_figure(double value, std::string_view unit) {
  if (unit == "s") return fmt::format("{:.3g} us", value * 1e6);
  constexpr std::array<std::string_view, 6> prefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < prefixes.size(); ++prefix) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, prefixes[prefix], unit);
}

std::string cost_table(const Plan& plan) {
  const Simulation& p = plan.prediction;
  const Figure& rate = plan.profile.matmul_flops;
  std::string text = fmt::format(
      "A step is predicted to take {} ({:.0f} tokens/s) on {}.\nUtilization {:.1f}%: {} of the "
      "model at {} (matrix products, {}).\n",
      format_seconds(p.step_seconds),
      static_cast<double>(plan.workload.tokens * plan.workload.micro_batches) / p.step_seconds,
      plan.profile.name, 100 * utilization(plan, p.step_seconds),
      format_figure(model_flops(plan.workload), "FLOP"), format_figure(rate, "FLOP/s"),
      rate.source);
  return text + lane_table(plan);
}

}  // namespace

std::string lane_table(const Plan& plan, bool with_idle) {
  const Simulation& p = plan.prediction;
  std::string text = fmt::format("  {:<24}{:>14}{:>14}\n", "lane", "busy", "exposed");
  for (const Lane lane : plan.workload.topology->all_lanes()) {
    const LaneInfo& info = (*plan.workload.topology)[lane];
    if (info.traffic == Traffic::express) continue;  // microseconds
    if (!with_idle && p.busy_seconds[lane] == 0) continue;
    text += fmt::format("  {:<24}{:>14}{:>14}\n", info.name, format_seconds(p.busy_seconds[lane]),
                        lane == Lane::compute ? "" : format_seconds(p.exposed_seconds[lane]));
    if (lane != Lane::compute) continue;
    for (const auto& [label, seconds] : compute_work(plan)) {
      text += fmt::format("    {:<28}{:>8}\n", label, format_seconds(seconds));
    }
  }
  return text;
}

std::string bound_by(const Plan& plan) {
  const Topology& topology = *plan.workload.topology;
  const auto& busy = plan.prediction.busy_seconds;
  const auto lanes = topology.all_lanes();
  const Lane lane = *std::max_element(lanes.begin(), lanes.end(),
                                      [&](Lane a, Lane b) { return busy[a] < busy[b]; });
  if (lane != Lane::compute) return topology[lane].name;
  const auto work = compute_work(plan);
  const auto most =
      std::ranges::max_element(work, {}, [](const auto& part) { return part.second; });
  return fmt::format("{}: {}", topology[lane].name, most == work.end() ? "tasks" : most->first);
}

Bytes missing_bytes(const Plan& plan) {
  Bytes missing = 0;
  for (const Tier tier : plan.workload.topology->all_tiers()) {
    missing += std::max<Bytes>(0, plan.peak(tier) - plan.limits[tier]);
  }
  return missing;
}

std::map<Purpose, Bytes> bytes_at_peak(const Plan& plan, Tier tier) {
  const Program& program = plan.program;
  List<Bytes> change(program.tasks.size() + 1, 0);
  for (const Object& object : program.objects) {
    if (object.tier != tier || object.persistent || object.first < 0) continue;
    change[object.first] += object.bytes;
    change[object.held + 1] -= object.bytes;
  }
  Bytes alive = 0;
  Bytes most = -1;
  TaskId peak = 0;
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    alive += change[task];
    if (alive > most) {
      most = alive;
      peak = static_cast<TaskId>(task);
    }
  }
  std::map<Purpose, Bytes> bytes;
  for (const Object& object : program.objects) {
    if (object.tier == tier && object.bytes > 0 && program.alive(object, peak)) {
      bytes[object.purpose] += object.bytes;
    }
  }
  return bytes;
}

std::string explain(const Plan& plan) {
  EnumArray<Site, std::int64_t, 3> parameters{};
  for (const Chunk& chunk : plan.program.chunks) {
    parameters[chunk.site()] += chunk.count;
  }
  return fmt::format(
      "Plan: {}\n  {} parameters in {} chunks: {} resident, {} streamed, {} updated by the "
      "CPU\n{}{}",
      flags_of(plan.choices), format_count(plan.workload.parameters()), plan.program.chunks.size(),
      format_count(parameters[Site::resident]), format_count(parameters[Site::stream]),
      format_count(parameters[Site::host]), memory_table(plan), cost_table(plan));
}

std::string explain_speeds(const Profile& profile) {
  std::string text;
  const auto add = [&](std::string_view label, const Figure& figure, std::string_view unit) {
    text += fmt::format("  {:<28}{:>14}  {}\n", label, format_figure(figure, unit), figure.source);
  };
  for (const ProfileField& field : profile_fields()) {
    add(field.label, profile.*field.figure, field.unit);
    for (const auto& [variant, figures] : profile.variants) {
      const auto other = figures.find(std::string(field.name));
      if (other != figures.end()) add("  with " + variant, other->second, field.unit);
    }
  }
  for (const Shared& shared : profile.shared) {
    const bool bytes = shared.name != "cores";
    add(shared.name + (bytes ? ", all lanes at once" : ""), shared.capacity, bytes ? "B/s" : "");
  }
  return text;
}

}  // namespace ebb::plan
