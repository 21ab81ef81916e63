#include "engine/training_run.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/rotary_table.h"
#include "engine/workload.h"

namespace ebb::engine {
namespace {

model::Decoder make_decoder(const TrainingSettings& s) {
  if (s.shape.sequence > s.config.max_positions) {
    throw ConfigError(
        fmt::format("--sequence {}: the model knows {} positions only; give at most {}",
                    s.shape.sequence, s.config.max_positions, s.config.max_positions));
  }
  return model::Decoder(s.config, s.dtype, s.gradient_type, s.shape);
}

// The first micro-batch as far as its loss. The head makes gradients with it, which nobody reads.
std::vector<plan::TaskId> find_evaluation(const std::vector<plan::Task>& tasks) {
  std::vector<plan::TaskId> found;
  bool lost = false;  // past the head
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const plan::Op op = tasks[t].op;
    const bool forward = op == plan::Op::load_batch || op == plan::Op::embed ||
                         op == plan::Op::forward || op == plan::Op::send_input ||
                         op == plan::Op::fetch_input || op == plan::Op::head;
    if ((forward && !lost) || op == plan::Op::gather_report) {
      found.push_back(static_cast<plan::TaskId>(t));
    }
    lost = lost || op == plan::Op::head;
  }
  return found;
}

plan::Workload workload_of(kernels::CountingOps& ops, const TrainingSettings& s) {
  TrainingShape shape{.accumulate = s.accumulate,
                      .gradient_type = s.gradient_type,
                      .state = s.state_kind(),
                      .extras = s.extras,
                      .task_bytes = kTaskBytes};
  shape.extras.push_back({plan::Tier::host, "staging", ParameterStore::kStagingBytes});
  if (s.trace_steps > 0) shape.task_bytes += (s.trace_steps + 2) * kTracedTaskBytes;
  return training_workload(make_decoder(s), model::parameters_of(s.config), ops, shape);
}

// All that the plan counted, before any of it is taken.
std::vector<memory::Reservation> reserve_all(const plan::Plan& plan, memory::Ledger& device,
                                             memory::Ledger& host) {
  std::vector<memory::Reservation> all;
  const auto reserve = [&](plan::Tier tier, const std::string& purpose, Bytes bytes) {
    all.push_back((tier == plan::Tier::device ? device : host).reserve(purpose, bytes));
  };
  for (const plan::Tier tier : {plan::Tier::device, plan::Tier::host}) {
    reserve(tier, "arena", plan.layout.size_of(tier));
  }
  for (const plan::Extra& extra : plan.workload.extras) {
    reserve(extra.tier, extra.name, extra.bytes);
  }
  reserve(plan::Tier::host, std::string(plan::kPlanExtra),
          plan.peak(plan::Tier::host) - plan.layout.size_of(plan::Tier::host) -
              plan.workload.extra(plan::Tier::host));
  return all;
}

plan::Profile speeds_for(plan::Profile profile, const TrainingSettings& s) {
  if (s.dtype == DType::f32) profile = plan::with_variant(std::move(profile), "fp32");
  return plan::with_variant(std::move(profile), fmt::format("{} states", name_of(s.format)));
}

}  // namespace

plan::Plan plan_training(Runtime& runtime, const TrainingSettings& s) {
  kernels::CountingOps ops(runtime.device_model());
  return plan_training(ops, runtime.profile(), s);
}

plan::Plan plan_training(kernels::CountingOps& ops, const plan::Profile& profile,
                         const TrainingSettings& s) {
  return plan::make_plan(workload_of(ops, s), s.wishes, s.limits, speeds_for(profile, s));
}

std::vector<plan::Alternative> alternatives_to(const plan::Plan& plan, kernels::CountingOps& ops,
                                               const plan::Profile& profile,
                                               const TrainingSettings& s) {
  using optim::StateFormat;
  std::vector<plan::Variant> formats;
  for (const StateFormat format : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    if (format == s.format || !optim::has_format(s.rule, format)) continue;
    TrainingSettings other = s;
    other.format = format;
    formats.push_back({.flags = fmt::format("--state-format {}", name_of(format)),
                       .workload = workload_of(ops, other),
                       .profile = speeds_for(profile, other)});
  }
  return plan::alternatives_to(plan, s.wishes, formats);
}

std::vector<plan::Alternative> alternatives_to(const plan::Plan& plan, Runtime& runtime,
                                               const TrainingSettings& s) {
  kernels::CountingOps ops(runtime.device_model());
  return alternatives_to(plan, ops, runtime.profile(), s);
}

TrainingRun::TrainingRun(Runtime& runtime, TrainingSettings settings)
    : TrainingRun(runtime, settings, plan_training(runtime, settings)) {}

TrainingRun::TrainingRun(Runtime& runtime, TrainingSettings settings, plan::Plan plan)
    : settings_(std::move(settings)),
      plan_(std::move(plan)),
      parameters_(model::parameters_of(settings_.config)),
      decoder_(make_decoder(settings_)),
      map_(map_chunks(parameters_, plan_.program.chunks)),
      device_ledger_("device", settings_.limits.device),
      host_ledger_("host", settings_.limits.host),
      reservations_(reserve_all(plan_, device_ledger_, host_ledger_)),
      device_is_host_(runtime.device().kind() == "cpu"),
      device_arena_("device",
                    runtime.device().allocate_device(plan_.layout.size_of(plan::Tier::device))),
      host_arena_("host", runtime.device().allocate_host(plan_.layout.size_of(plan::Tier::host))),
      tasks_(runtime, decoder_, parameters_, map_, plan_,
             {.gradient_type = settings_.gradient_type,
              .state = settings_.state_kind(),
              .clip = settings_.clip}),
      executor_(
          runtime.device(), plan_.program, plan_.layout, device_arena_, host_arena_,
          [this](TaskRun& run) { tasks_(run); }, settings_.disturbance),
      store_(runtime, executor_, plan_.program, parameters_, map_, settings_.state_kind()) {
  kernels::ModelLibrary& library = runtime.device_model();
  for (const kernels::Product& product : training_products(decoder_, library)) {
    library.prepare(product);
  }
  library.freeze();
  fill_rotary_table(executor_, plan_.program.homes.tables, decoder_, settings_.shape.sequence);
  const auto& tasks = plan_.program.tasks;
  const auto norm = std::find_if(tasks.begin(), tasks.end(),
                                 [](const plan::Task& task) { return task.op == plan::Op::norm; });
  norm_task_ = static_cast<plan::TaskId>(norm - tasks.begin());
  evaluation_tasks_ = find_evaluation(tasks);
  if (settings_.trace_steps > 0) executor_.keep_times(settings_.trace_steps);
}

std::int64_t TrainingRun::place(const text::Batch& batch, std::size_t micro) {
  std::byte* to =
      executor_.address(plan_.program.homes.host_batches.at(micro), plan_.workload.batch);
  const Bytes half = plan_.workload.batch / 2;
  std::memcpy(to, batch.tokens.data(), static_cast<std::size_t>(half));
  std::memcpy(to + half, batch.targets.data(), static_cast<std::size_t>(half));
  return std::count_if(batch.targets.begin(), batch.targets.end(),
                       [](std::int32_t target) { return target >= 0; });
}

StepResult TrainingRun::step(std::span<const text::Batch> batches) {
  // The step before is past its norm, so its batches have been loaded: their memory is free.
  const std::int64_t index = executor_.steps_issued();
  const std::int64_t step = steps_done_ + 1;
  std::int64_t counted = 0;
  for (std::size_t m = 0; m < batches.size(); ++m) counted += place(batches[m], m);
  if (counted == 0) {
    throw ConfigError(fmt::format(
        "step {}: none of its {} tokens counts for the loss; are the prompts longer than "
        "--sequence {}?",
        step, plan_.workload.tokens * plan_.workload.micro_batches, settings_.shape.sequence));
  }
  const double rate = learning_rate(step);
  const auto numbers = [&](bool decays) {
    return optim::step_numbers(settings_.rule, rate, step, decays, settings_.seed);
  };
  tasks_.set_numbers(
      index,
      {.step = step, .counted = counted, .decaying = numbers(true), .resting = numbers(false)});
  executor_.issue();
  executor_.wait(norm_task_);
  steps_done_ = step;
  return tasks_.result(index);
}

Evaluation TrainingRun::evaluate(const text::Batch& batch) {
  finish();
  Evaluation result{.counted = place(batch, 0)};
  StepNumbers numbers;
  numbers.counted = std::max<std::int64_t>(1, result.counted);
  tasks_.set_numbers(executor_.steps_issued(), numbers);
  executor_.run_alone(evaluation_tasks_);
  std::memcpy(&result.loss_sum, executor_.address(plan_.program.homes.host_report, 8), 8);
  return result;
}

bool TrainingRun::settle() {
  try {
    finish();
  } catch (const NumericsError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

plan::Trace TrainingRun::trace() {
  try {
    finish();
  } catch (const std::exception&) {
    // It was told to whoever made the step; what ran before is still worth a look.
  }
  plan::Trace trace{.kind = plan::Trace::Kind::measured,
                    .plan = plan_,
                    .spans = executor_.spans(),
                    .steps = settings_.trace_steps};
  for (plan::Span& span : trace.spans) span.step += steps_before_ + 1;
  return trace;
}

std::optional<Bytes> TrainingRun::touched_bytes(plan::Tier tier) const {
  if (tier == plan::Tier::host) return host_arena_.touched_bytes();
  return device_is_host_ ? device_arena_.touched_bytes() : std::nullopt;
}

Bytes TrainingRun::measured_peak(plan::Tier tier) const {
  if (tier == plan::Tier::disk) return 0;
  const bool device = tier == plan::Tier::device;
  const memory::Arena& arena = device ? device_arena_ : host_arena_;
  const memory::Ledger& ledger = device ? device_ledger_ : host_ledger_;
  return arena.high_water() + ledger.peak() - arena.size();
}

}  // namespace ebb::engine
