#include "engine/training_run.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/list.h"
#include "base/to_size.h"
#include "dist/communicator.h"
#include "ebb/error.h"
#include "engine/rank_agreement.h"
#include "engine/rotary_table.h"
#include "engine/settings.h"
#include "engine/workload.h"
#include "plan/refusal.h"
#include "plan/search.h"

namespace ebb::engine {
namespace {

// Everything that takes memory is in it, staging too, so that the plan's peak is the run's.
plan::Workload workload_of(kernels::CountingOps& ops, const TrainingSettings& s) {
  const plan::Ranks ranks = s.divided();
  TrainingShape shape{.accumulate = ranks.own_micro_batches(),
                      .gradient_type = s.gradient_type,
                      .state = s.state_kind(),
                      .extras = s.extras,
                      .task_bytes = task_bytes(s.trace_steps)};
  shape.extras.push_back({plan::Tier::host, "staging", ParameterStore::kStagingBytes});
  plan::Workload work =
      training_workload(make_decoder(s), model::parameters_of(s.config), ops, shape);
  work.ranks = ranks;
  work.topology =
      ranks.count > 1 ? plan::with_network(*s.topology, plan::kRoughNetwork) : s.topology;
  return work;
}

// Those that count.
std::int64_t targets_of(const text::Batch& batch) {
  return std::count_if(batch.targets.begin(), batch.targets.end(),
                       [](std::int32_t target) { return target >= 0; });
}

// Numbers of the executor's programs.
constexpr std::size_t kTraining = 0;
constexpr std::size_t kEvaluation = 1;

}  // namespace

// Rotary positions go on behind what the model knows (note_on_positions()); a table of learned ones
// ends.
model::Decoder make_decoder(const TrainingSettings& s) {
  if (s.config.positions == model::Config::Positions::learned &&
      s.shape.sequence > s.config.max_positions) {
    throw ConfigError(
        fmt::format("--sequence {}: the model knows {} positions only; give at most {}",
                    s.shape.sequence, s.config.max_positions, s.config.max_positions));
  }
  return model::Decoder(s.config, s.dtype, s.gradient_type, s.shape);
}

plan::Profile speeds_for(plan::Profile profile, const TrainingSettings& s) {
  if (s.dtype == DType::f32) profile = plan::with_variant(std::move(profile), "fp32");
  return plan::with_variant(std::move(profile), fmt::format("{} states", name_of(s.format)));
}

states::ChunkMap map_chunks(const model::Parameters& parameters,
                            const std::vector<plan::Chunk>& chunks, const TrainingSettings& s) {
  std::vector<states::Tensor> tensors;
  for (const model::Parameter& parameter : parameters.all) {
    tensors.push_back({.count = parameter.count(),
                       .kind = s.state_kind(),
                       .gradient_type = s.gradient_type,
                       .decays = parameter.matrix,
                       // Random numbers go by the place in the model: placement and chunk size do
                       // not change them.
                       .key = tensors.size()});
  }
  List<states::Run> blocks;
  for (const model::ParameterBlock& block : parameters.blocks) {
    states::Run& run = blocks.emplace_back(states::Run{.parameters = block.parameters});
    for (const int p : block.parameters) {
      const model::Parameter& parameter = parameters.all[p];
      run.places.push_back({parameter.first, parameter.count()});
    }
  }
  states::ChunkMap map = states::map_tensors(std::move(tensors));
  for (const plan::Chunk& chunk : chunks) {
    states::add_chunk(map, blocks[chunk.block], chunk.first, chunk.count);
    map.chunks.back().site = chunk.site();
  }
  return map;
}

std::string note_on_positions(const TrainingSettings& s) {
  if (s.shape.sequence <= s.config.max_positions) return {};
  return fmt::format(
      "--sequence {}: the model was made for {} positions. Its rotary positions go on behind them, "
      "where it has learned nothing yet; what is saved still says {}.",
      s.shape.sequence, s.config.max_positions, s.config.max_positions);
}

plan::Ranks TrainingSettings::divided() const {
  return {.count = ranks == nullptr ? 1 : ranks->size(),
          .rank = ranks == nullptr ? 0 : ranks->rank(),
          .micro_batches = accumulate,
          .groups = gradient_groups == 0 ? accumulate : gradient_groups};
}

// Rank 0 plans first: how blocks are cut is the same for all. What else a plan decides each rank
// decides for itself, by its own limits.
plan::Plan plan_training(Runtime& runtime, const TrainingSettings& s) {
  kernels::CountingOps ops(runtime.device_model());
  if (s.ranks == nullptr || s.ranks->size() == 1) return plan_training(ops, runtime.profile(), s);
  return plan_together(*s.ranks, s.fixed, [&](const plan::FixedChoices& fixed) {
    TrainingSettings own = s;
    own.fixed = fixed;
    return plan_training(ops, runtime.profile(), own);
  });
}

namespace {

// The same run with a step of another shape. Batches that wait are counted with the rest.
TrainingSettings with_batch(TrainingSettings s, model::Shape shape, std::int64_t accumulate) {
  for (plan::Extra& extra : s.extras) {
    if (extra.name != kBatchesExtra) continue;
    extra.bytes = extra.bytes / (s.shape.tokens() * s.accumulate) * (shape.tokens() * accumulate);
  }
  s.shape = shape;
  s.accumulate = accumulate;
  return s;
}

// What a smaller batch would do, where one fits: fewer sequences at once, else shorter ones.
List<std::string> batch_remedies(kernels::CountingOps& ops, const plan::Profile& profile,
                                 const TrainingSettings& s) {
  const auto fits_with = [&](model::Shape shape, std::int64_t accumulate) {
    const TrainingSettings other = with_batch(s, shape, accumulate);
    const plan::Workload work = workload_of(ops, other);
    const plan::Profile speeds = speeds_for(profile, other);
    const plan::SearchResult found = plan::search(work, s.fixed, s.limits, speeds);
    return found.fits && fits(plan::plan_with(work, found.choices, s.limits, speeds));
  };
  const std::int64_t sequence = s.shape.sequence;
  for (std::int64_t rows = s.shape.rows / 2; rows >= 1; rows /= 2) {
    const std::int64_t accumulate = (s.shape.rows * s.accumulate + rows - 1) / rows;
    if (!fits_with({.rows = rows, .sequence = sequence}, accumulate)) continue;
    return {fmt::format("--micro-batch {} --accumulate {}: as many sequences in a step", rows,
                        accumulate)};
  }
  constexpr std::int64_t shortest = 64;
  for (std::int64_t length = std::min(sequence / 2, s.config.max_positions); length >= shortest;
       length /= 2) {
    if (!fits_with({.rows = 1, .sequence = length}, s.accumulate)) continue;
    return {fmt::format("--sequence {} --micro-batch 1", length)};
  }
  return {};
}

}  // namespace

plan::Plan plan_training(kernels::CountingOps& ops, const plan::Profile& profile,
                         const TrainingSettings& s) {
  plan::FixedChoices fixed = s.fixed;
  // Gradients of groups always leave the device.
  if (s.divided().grouped()) fixed.host_sums = fixed.disk_sums = 0;
  plan::Plan plan = plan::find_plan(workload_of(ops, s), fixed, s.limits, speeds_for(profile, s));
  if (fits(plan)) return plan;
  throw plan::refusal(plan, s.fixed, batch_remedies(ops, profile, s));
}

std::vector<plan::Alternative> alternatives_to(const plan::Plan& plan, kernels::CountingOps& ops,
                                               const plan::Profile& profile,
                                               const TrainingSettings& s) {
  using states::StateFormat;
  std::vector<plan::Variant> formats;
  for (const StateFormat format : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    // Another format changes the workload, so each is planned from the start.
    if (format == s.format || !states::has_format(s.rule, format)) continue;
    TrainingSettings other = s;
    other.format = format;
    formats.push_back({.flags = fmt::format("--state-format {}", name_of(format)),
                       .workload = workload_of(ops, other),
                       .profile = speeds_for(profile, other)});
  }
  return plan::alternatives_to(plan, s.fixed, formats);
}

TrainingRun::TrainingRun(Runtime& runtime, TrainingSettings settings)
    : TrainingRun(runtime, settings, plan_training(runtime, settings)) {}

TrainingRun::TrainingRun(Runtime& runtime, TrainingSettings settings, plan::Plan plan)
    : settings_(std::move(settings)),
      network_(settings_.divided().count > 1 ? settings_.ranks->split() : nullptr),
      plan_(std::move(plan)),
      parameters_(model::parameters_of(settings_.config)),
      decoder_(make_decoder(settings_)),
      map_(map_chunks(parameters_, plan_.program.chunks, settings_)),
      evaluation_(plan::plan_evaluation(plan_, settings_.disturbance.red_zone)),
      memory_(runtime, plan_, settings_.make_space),
      tasks_(runtime, decoder_, parameters_, map_, plan_,
             {.gradient_type = settings_.gradient_type,
              .clip = settings_.clip,
              .ranks = network_.get()}),
      executor_(
          runtime.device(), memory_.spaces(),
          {{&plan_.program, &plan_.layout, [this](TaskRun& run) { tasks_(run); }},
           {&evaluation_.program, &evaluation_.layout, [this](TaskRun& run) { tasks_(run); }}},
          settings_.disturbance),
      store_(runtime, executor_, plan_.program, parameters_, map_, settings_.state_kind(),
             network_ ? settings_.ranks : nullptr) {
  if (network_) check_same_cuts(*settings_.ranks, plan_);
  kernels::ModelLibrary& library = runtime.device_model();
  for (const kernels::Product& product : training_products(decoder_, library)) {
    library.prepare(product);
  }
  library.freeze();
  fill_rotary_table(executor_, plan_.program.persistent.tables, decoder_, settings_.shape.sequence);
  prepare_spaces(plan_, memory_);
  const auto& tasks = plan_.program.tasks;
  const auto norm = std::find_if(tasks.begin(), tasks.end(),
                                 [](const plan::Task& task) { return task.op == plan::Op::norm; });
  norm_task_ = static_cast<plan::TaskId>(norm - tasks.begin());
  if (settings_.trace_steps > 0) executor_.keep_times(settings_.trace_steps);
}

// Before lanes and their memory go, nobody waits for another rank any more.
TrainingRun::~TrainingRun() {
  if (network_ && failed_) network_->fail("its run has ended");
}

void TrainingRun::or_tell(const std::function<void()>& work) {
  try {
    work();
  } catch (const NumericsError&) {
    // Every rank has the same norm, and throws the same.
    throw;
  } catch (const std::exception& error) {
    failed_ = true;
    if (network_) network_->fail(error.what());
    throw;
  }
}

void TrainingRun::place(const text::Batch& batch, std::int64_t micro) {
  std::byte* to = executor_.address(plan_.program.persistent.batches[micro], plan_.workload.batch);
  const Bytes half = plan_.workload.batch / 2;
  std::memcpy(to, batch.tokens.data(), to_size(half));
  std::memcpy(to + half, batch.targets.data(), to_size(half));
}

StepResult TrainingRun::step(std::span<const text::Batch> batches) {
  StepResult result;
  or_tell([&] { result = step_alike(batches); });
  return result;
}

StepResult TrainingRun::step_alike(std::span<const text::Batch> batches) {
  // The step before is past its norm, so its batches have been loaded: their memory is free.
  executor_.wait_for_room(kTraining);
  const std::int64_t index = executor_.steps_issued();
  const std::int64_t step = steps_done_ + 1;
  std::int64_t loss_tokens = 0;
  for (const text::Batch& batch : batches) loss_tokens += targets_of(batch);
  const plan::Workload& work = plan_.workload;
  for (std::int64_t m = 0; m < work.micro_batches; ++m) {
    const std::int64_t place_of_m = work.ranks.grouped() ? work.ranks.place_of(m) : m;
    place(batches[to_size(place_of_m)], m);
  }
  if (loss_tokens == 0) {
    throw ConfigError(fmt::format(
        "step {}: none of its {} tokens counts for the loss; are the prompts longer than "
        "--sequence {}?",
        step, work.tokens * settings_.accumulate, settings_.shape.sequence));
  }
  const double rate = learning_rate(step);
  tasks_.set_numbers(
      index, {.step = step,
              .loss_tokens = loss_tokens,
              .update = states::update_numbers(settings_.rule, rate, step, settings_.seed)});
  executor_.issue(kTraining);
  executor_.wait(norm_task_);
  steps_done_ = step;
  return tasks_.result(index);
}

Evaluation TrainingRun::evaluate(const text::Batch& batch) {
  finish();
  place(batch, 0);
  Evaluation result{.loss_tokens = targets_of(batch)};
  executor_.issue(kEvaluation);
  finish();
  std::memcpy(&result.loss_sum, executor_.address(plan_.program.persistent.report, 8), 8);
  return result;
}

Bytes TrainingRun::network_bytes() const {
  return network_ == nullptr ? 0 : network_->sent_bytes();
}

void TrainingRun::finish() {
  or_tell([&] { executor_.drain(); });
}

bool TrainingRun::settle() {
  try {
    finish();
  } catch (const NumericsError&) {
    // The step before may have failed after it.
    return executor_.failed_step().value_or(0) > tasks_.last_updating();
  } catch (const std::exception&) {
    // Steps before the one that failed came to their ends. Of that one, nothing must have been
    // updated yet, nor its loss been told: then it would count as done.
    const auto failed = executor_.failed_step();
    return failed && *failed > tasks_.last_updating() && *failed >= steps_done_ - steps_before_;
  }
  return true;
}

void TrainingRun::forget_times() { executor_.forget_times(); }

plan::Trace TrainingRun::trace() {
  try {
    finish();
  } catch (const std::exception&) {
    // The caller of the step was told; what ran before is still worth a look.
  }
  plan::Trace trace{.kind = plan::Trace::Kind::measured,
                    .plan = plan_,
                    .spans = executor_.spans(),
                    .steps = settings_.trace_steps};
  for (plan::TimeSpan& span : trace.spans) span.step += steps_before_ + 1;
  return trace;
}

}  // namespace ebb::engine
