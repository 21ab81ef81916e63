#include "ebb/plan.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "api/described_plan.h"
#include "api/opened_model.h"
#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/machine_profile.h"
#include "engine/settings.h"
#include "engine/trace_file.h"
#include "engine/training_run.h"
#include "files/model/source.h"
#include "files/model/tokenizer.h"
#include "io/posix_file_system.h"
#include "kernels/counting_ops.h"
#include "kernels/estimated_needs.h"
#include "plan/explain.h"

namespace ebb {
namespace {

// What to plan for: a model's shape, and its tokenizer as far as there is one without data.
struct Subject {
  const model::Config& config;
  // Of what it takes of the host's limit; nothing where there is no tokenizer to count.
  std::function<std::optional<Bytes>(Bytes host_limit)> tokenizer_bytes;
};

Subject subject_of(io::FileSystem& files, const files::ModelSource& source,
                   const TrainOptions& options) {
  return {
      source.config, [&](Bytes host_limit) -> std::optional<Bytes> {
        const bool has_own = !source.folder.empty() && text::has_tokenizer(files, source.folder);
        if (options.tokenizer.empty() && !has_own) return std::nullopt;
        return files::find_tokenizer(files, source, options.tokenizer, host_limit).memory_bytes();
      }};
}

// A plan without data counts what is known without it.
engine::TrainingSettings settings_of(const Subject& subject, const TrainOptions& options,
                                     const engine::MachineMemory& memory, io::FileSystem* files) {
  engine::TrainingSettings settings = engine::training_settings(options, subject.config, memory);
  engine::add_disks_of(options, files, settings);
  if (const auto bytes = subject.tokenizer_bytes(settings.limits[plan::Tier::host])) {
    settings.extras.push_back({plan::Tier::host, "tokenizer", *bytes});
  }
  return settings;
}

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

// On a machine that need not be here.
Plan plan_elsewhere(io::FileSystem& files, const TrainOptions& options, const Subject& subject,
                    const std::string& machine) {
  if (!options.profile.empty()) {
    throw ConfigError("--profile: speeds of this machine say nothing of --machine; give one only");
  }
  engine::TraceFile trace(files, options.trace);
  const plan::Profile profile = engine::find_machine(files, machine);
  if (options.device != DeviceKind::automatic && to_word(options.device) != profile.device) {
    throw ConfigError(fmt::format("--device {}: the machine is a {} one; leave --device out",
                                  to_word(options.device), profile.device));
  }
  const engine::TrainingSettings settings = settings_of(subject, options,
                                                        {.device = profile.device_memory,
                                                         .host = profile.host_memory,
                                                         .shared = profile.device == "cpu"},
                                                        nullptr);
  const auto needs = kernels::estimate_needs(profile.device, profile.cores);
  kernels::CountingOps ops(*needs);
  const plan::Plan plan = engine::plan_training(ops, profile, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return with_alternatives(
      plan, engine::alternatives_to(plan, ops, profile, settings), settings, options,
      fmt::format("Speeds of {}:\n{}Workspaces are estimates: the libraries of that machine were "
                  "not asked.\n",
                  profile.name, plan::explain_speeds(profile)));
}

Plan plan_here(io::FileSystem& files, const TrainOptions& options, const Subject& subject) {
  engine::TraceFile trace(files, options.trace);
  engine::Runtime runtime(options.device, engine::check_threads(options.threads));
  const std::string speeds = engine::load_profile(files, runtime, options.profile);
  const engine::TrainingSettings settings = settings_of(subject, options, runtime.memory(), &files);
  const plan::Plan plan = engine::plan_training(runtime, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return with_alternatives(plan, engine::alternatives_to(plan, runtime, settings), settings,
                           options, speeds + "\n" + plan::explain_speeds(runtime.profile()));
}

Plan plan_of(io::FileSystem& files, const Subject& subject, const TrainOptions& options,
             const std::string& machine) {
  return machine.empty() ? plan_here(files, options, subject)
                         : plan_elsewhere(files, options, subject, machine);
}

}  // namespace

namespace api {

Plan describe(const plan::Plan& plan, std::string explanation) {
  Plan described;
  described.step_seconds = plan.prediction.step_seconds;
  described.tokens_per_second =
      static_cast<double>(plan.workload.tokens * plan.workload.micro_batches) /
      plan.prediction.step_seconds;
  const plan::Topology& topology = *plan.workload.topology;
  for (const plan::Tier tier : topology.all_tiers()) {
    described.tiers.push_back({topology[tier].name, plan.peak(tier), plan.limits[tier]});
  }
  const std::string flags = plan::flags_of(plan.choices);
  for (std::size_t start = 0; start < flags.size();) {
    const std::size_t end = std::min(flags.find(" --", start + 1), flags.size());
    described.flags.push_back(flags.substr(start, end - start));
    start = end + 1;
  }
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
