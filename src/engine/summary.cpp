#include "engine/summary.h"

#include <numeric>

#include "base/json.h"
#include "base/median.h"
#include "engine/disk_tier.h"
#include "engine/process_report.h"
#include "kernels/cpu/isa.h"
#include "plan/explain.h"
#include "plan/utilization.h"

namespace ebb::engine {
namespace {

// Predicted by the plan; measured from what tasks used of the arena and what was reserved beside
// it; arena_touched from the system's pages, which know neither.
Json tier(TrainingRun& run, plan::Tier tier) {
  Json json = {{"limit", run.plan().limits[tier]},
               {"predicted_peak", run.plan().peak(tier)},
               {"measured_peak", run.measured_peak(tier)}};
  if (const auto touched = run.touched_bytes(tier)) json["arena_touched"] = *touched;
  json["counted"] = run.ledger(tier).by_purpose();
  return json;
}

Json tiers(TrainingRun& run) {
  Json all = Json::object();
  const plan::Topology& topology = *run.plan().workload.topology;
  for (const plan::Tier each : topology.all_tiers()) all[topology[each].name] = tier(run, each);
  // Summaries have always had a row for the disk; where it is no tier, it holds nothing.
  if (!all.contains("disk")) {
    all["disk"] = {{"limit", 0}, {"predicted_peak", 0}, {"measured_peak", 0}};
  }
  return all;
}

Bytes moved_by_disk(const TrainingRun& run, bool read) {
  if (run.plan().workload.topology->tiers.size() <= kDisk.index) return 0;
  return read ? run.executor().moved(kDisk, plan::Tier::host)
              : run.executor().moved(plan::Tier::host, kDisk);
}

Json lanes(TrainingRun& run, std::size_t steps) {
  Json all = Json::object();
  const plan::Topology& topology = *run.plan().workload.topology;
  for (const plan::Lane lane : topology.all_lanes()) {
    all[topology[lane].name] = {
        {"busy_seconds_per_step",
         steps == 0 ? 0.0 : run.executor().busy_seconds(lane) / static_cast<double>(steps)},
        {"predicted_busy_seconds", run.plan().prediction.busy_seconds[lane]},
        {"predicted_exposed_seconds", run.plan().prediction.exposed_seconds[lane]}};
  }
  return all;
}

}  // namespace

std::string summarize(TrainingRun& run, const Runtime& runtime, const Json& numerics_key,
                      const RunFigures& figures) {
  const double seconds =
      std::accumulate(figures.step_seconds.begin(), figures.step_seconds.end(), 0.0);
  const auto steps = static_cast<std::int64_t>(figures.step_seconds.size());
  const double mean = steps > 0 ? seconds / static_cast<double>(steps) : 0;
  const auto share = plan::measured_utilization(run.plan(), mean);
  Json json = {
      {"steps", run.steps_done()},
      {"steps_this_run", steps},
      {"tokens", figures.tokens},
      {"counted_tokens", figures.counted_tokens},
      {"cut_examples", figures.left_out.cut_examples},
      {"cut_tokens", figures.left_out.cut_tokens},
      {"bad_items", figures.left_out.bad_items},
      {"first_bad_item",
       figures.left_out.bad_items == 0 ? Json() : Json(figures.left_out.first_problem)},
      {"steps_without_targets", figures.left_out.empty_steps},
      {"accepted_data_changes", figures.accepted_data_changes},
      {"loss_first", figures.losses.empty() ? Json() : Json(figures.losses.front())},
      {"loss_last", figures.losses.empty() ? Json() : Json(figures.losses.back())},
      {"validation_losses", figures.validation_losses},
      {"validation_seconds", figures.validation_seconds},
      {"validation_batch_seconds_predicted", run.evaluation_seconds()},
      {"tokens_per_second", seconds > 0 ? static_cast<double>(figures.tokens) / seconds : 0.0},
      {"utilization", share && mean > 0 ? Json(*share) : Json()},
      {"utilization_predicted", plan::utilization(run.plan(), run.plan().prediction.step_seconds)},
      {"model_flops_per_step", plan::model_flops(run.plan().workload)},
      {"matrix_flops_per_second",
       {{"value", run.plan().profile.matmul_flops.value},
        {"source", run.plan().profile.matmul_flops.source}}},
      {"start_seconds", figures.start.json()},
      {"step_seconds_median", median(figures.step_seconds)},
      {"step_seconds_predicted", run.plan().prediction.step_seconds},
      {"seconds_waiting_for_data", figures.seconds_waiting_for_data},
      {"weights_digest", run.store().weights_digest()},
      {"moments_digest", run.store().moments_digest()},
      {"link_bytes_up", run.executor().moved(plan::Tier::host, plan::Tier::device)},
      {"link_bytes_down", run.executor().moved(plan::Tier::device, plan::Tier::host)},
      {"disk_bytes_read", moved_by_disk(run, true)},
      {"disk_bytes_written", moved_by_disk(run, false)},
      {"tiers", tiers(run)},
      {"process", to_json(report_process(run, runtime))},
      {"lanes", lanes(run, figures.step_seconds.size())},
      {"parameters", run.store().parameters().count()},
      {"threads", runtime.threads()},
      {"isa", kernels::isa_in_use()},
      {"numerics_key", numerics_key},
      {"plan", plan::flags_of(run.plan().choices)}};
  return json.dump(2);
}

}  // namespace ebb::engine
