#include "ebb/plan.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "api/described_plan.h"
#include "api/opened_model.h"
#include "api/planned_machine.h"
#include "base/json.h"
#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/run_pictures.h"
#include "engine/settings.h"
#include "engine/trace_file.h"
#include "engine/training_run.h"
#include "files/model/source.h"
#include "files/model/tokenizer.h"
#include "io/posix_file_system.h"
#include "kernels/counting_ops.h"
#include "plan/explain.h"
#include "plan/step_picture.h"

namespace ebb {
namespace {

// What to plan for: a model's shape, and its tokenizer as far as there is one without data. Refers
// to the caller's model and options, and is for one call.
struct Subject {
  const model::Config& config;
  // Bytes that the tokenizer takes of the host's limit; nothing where there is no tokenizer to
  // count. Asked late, when the limit is known: reading a tokenizer is bounded by it.
  std::function<std::optional<Bytes>(Bytes host_limit)> tokenizer_bytes;
};

Subject subject_of(io::FileSystem& files, const files::ModelSource& source,
                   const TrainOptions& options) {
  return {
      source.config, [&](Bytes host_limit) -> std::optional<Bytes> {
        const bool has_own = !source.file.empty() ||
                             (!source.folder.empty() && text::has_tokenizer(files, source.folder));
        if (options.tokenizer.empty() && !has_own) return std::nullopt;
        return files::find_tokenizer(files, source, options.tokenizer, host_limit).memory_bytes();
      }};
}

// A plan without data counts what is known without it: what reads data ahead is not in it. Without
// `files` the disks are those that the options give, and are not looked at.
engine::TrainingSettings settings_of(const Subject& subject, const TrainOptions& options,
                                     const engine::MachineMemory& memory, io::FileSystem* files) {
  engine::TrainingSettings settings = engine::training_settings(options, subject.config, memory);
  engine::RunPictures::keep_times(options, settings);
  engine::add_disks_of(options, files, settings);
  if (const auto bytes = subject.tokenizer_bytes(settings.limits[plan::Tier::host])) {
    settings.extras.push_back({plan::Tier::host, "tokenizer", *bytes});
  }
  return settings;
}

// `speeds` is for people: where the numbers behind the plan come from.
Plan with_alternatives(const plan::Plan& plan, const std::vector<plan::Alternative>& alternatives,
                       const engine::TrainingSettings& settings, const TrainOptions& options,
                       const std::string& speeds) {
  const std::string note = engine::note_on_positions(settings);
  Plan described = api::describe(
      plan, fmt::format("{}{}{}{}{}{}", note, note.empty() ? "" : "\n", plan::explain(plan),
                        engine::explain_disk(plan, options.steps, options.disk_endurance),
                        plan::explain(alternatives), speeds));
  for (const plan::Alternative& other : alternatives) {
    described.alternatives.push_back({.flags = other.flags,
                                      .note = other.note,
                                      .speed = other.speed,
                                      .device = other.device,
                                      .host = other.host});
  }
  return described;
}

Plan plan_of(io::FileSystem& files, const Subject& subject, const TrainOptions& options,
             const std::string& machine) {
  engine::TraceFile trace(files, options.trace);
  const api::PlannedMachine on = api::planned_machine(
      files, {.device = options.device, .threads = options.threads, .profile = options.profile},
      machine);
  // Folders of disks are looked at where they are, on this machine.
  const engine::TrainingSettings settings =
      settings_of(subject, options, on.memory, on.here != nullptr ? &files : nullptr);
  kernels::CountingOps ops(on.needs());
  const plan::Plan plan = engine::plan_training(ops, on.profile, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return with_alternatives(plan, engine::alternatives_to(plan, ops, on.profile, settings), settings,
                           options, on.explain());
}

}  // namespace

namespace api {

Plan describe(const plan::Plan& plan, std::string explanation) {
  Plan described;
  described.step_seconds = plan.prediction.step_seconds;
  // A workload's tokens are those of one micro-batch.
  described.tokens_per_second =
      static_cast<double>(plan.workload.tokens * plan.workload.micro_batches) /
      plan.prediction.step_seconds;
  const plan::Topology& topology = *plan.workload.topology;
  for (const plan::Tier tier : topology.all_tiers()) {
    described.tiers.push_back({topology[tier].name, plan.peak(tier), plan.limits[tier]});
  }
  const std::string flags = plan::flags_of(plan.choices);
  // Cut where the next flag begins: a flag stays with its value.
  for (std::size_t start = 0; start < flags.size();) {
    const std::size_t end = std::min(flags.find(" --", start + 1), flags.size());
    described.flags.push_back(flags.substr(start, end - start));
    start = end + 1;
  }
  described.json = plan::plan_json(plan, explanation).dump();
  described.explanation = std::move(explanation);
  return described;
}

}  // namespace api

Plan make_plan(const TrainOptions& options, const std::string& machine) {
  io::PosixFileSystem files;
  const files::ModelSource source = files::find_model(files, options.model);
  return plan_of(files, subject_of(files, source, options), options, machine);
}

Plan make_plan(const Model& model, const TrainOptions& options, const std::string& machine) {
  io::PosixFileSystem files;
  const api::OpenedModel& opened = api::opened(model);
  return plan_of(files,
                 {opened.source().config,
                  [&](Bytes) { return std::optional(opened.found_tokenizer().memory_bytes()); }},
                 options, machine);
}

std::string explain_plan(const TrainOptions& options, const std::string& machine) {
  return make_plan(options, machine).explanation;
}

}  // namespace ebb
