#include "engine/run_pictures.h"

#include <chrono>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "ebb/version.h"
#include "io/text_file.h"
#include "kernels/cpu/isa.h"
#include "plan/step_picture.h"
#include "report/run_data.h"

namespace ebb::engine {

void RunPictures::keep_times(const TrainOptions& options, TrainingSettings& settings) {
  if (options.trace.empty()) settings.trace_steps = 1;
}

RunPictures::RunPictures(io::FileSystem& files, std::filesystem::path folder, Note note)
    : files_(files), folder_(std::move(folder)), note_(std::move(note)) {
  // What a run left that was killed while it wrote: a run that has no step to make writes no other.
  files_.remove_all(folder_ / (std::string(report::kStepName) + ".partial"));
}

void RunPictures::write_plan(const TrainingRun& run, const Runtime& runtime,
                             const TrainOptions& options, const Json& settings,
                             const std::string& words) {
  Json json = plan::plan_json(run.plan(), words);
  json["ebb"] = kVersion;
  json["started"] = fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
  json["model"] = options.model;
  json["data"] = options.data;
  json["steps"] = options.steps;
  json["threads"] = runtime.threads();
  json["isa"] = kernels::isa_in_use();
  json["settings"] = settings;
  write(report::kPlanName, json);
}

bool RunPictures::after_step(TrainingRun& run, std::int64_t steps, bool at_end) {
  if (drawn_ || steps == 0 || (steps < kSteps && !at_end)) return false;
  drawn_ = true;
  run.finish();
  const plan::Trace trace = run.trace();
  Json tiers = Json::array();
  const plan::Topology& topology = *run.plan().program.topology;
  for (const plan::Tier tier : topology.all_tiers()) {
    tiers.push_back({{"name", topology[tier].name}, {"measured_peak", run.measured_peak(tier)}});
  }
  write(report::kStepName, {{"format", "ebb step"},
                            {"version", 1},
                            {"tiers", std::move(tiers)},
                            {"step", plan::step_picture(trace)}});
  return true;
}

void RunPictures::write(const char* name, const Json& json) {
  try {
    io::write_text_atomically(files_, folder_ / name,
                              json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
  } catch (const IoError& error) {
    note_(fmt::format("{} is not kept, so a report will lack it: {}", name, error.what()));
  }
}

}  // namespace ebb::engine
