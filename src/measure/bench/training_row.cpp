#include "measure/bench/training_row.h"
#include "engine/disk_tier.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/list.h"
#include "base/rng.h"
#include "ebb/error.h"
#include "engine/gemm_cache.h"
#include "engine/settings.h"
#include "files/model/source.h"
#include "measure/bench/hand_made.h"
#include "plan/explain.h"
#include "plan/utilization.h"

namespace ebb::measure {
namespace {

// One for all rows: equal rows give equal digests.
constexpr std::uint64_t kSeed = 0;
// More than any machine has: what a plan would take if it could.
constexpr Bytes kNoLimit = Bytes{1} << 50;

// The same tokens every step: speed does not depend on them.
std::vector<text::Batch> made_up_batches(const engine::TrainingSettings& s) {
  std::vector<text::Batch> batches;
  for (std::int64_t m = 0; m < s.accumulate; ++m) {
    const CounterRng rng(kSeed, static_cast<std::uint64_t>(m));
    const auto id = [&](std::int64_t i) {
      return static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(i),
                                                 static_cast<std::uint64_t>(s.config.vocabulary)));
    };
    text::Batch batch;
    for (std::int64_t i = 0; i < s.shape.tokens(); ++i) {
      batch.tokens.push_back(id(i));
      batch.targets.push_back(id(i + 1));
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

// Random weights, all transformer blocks alike: making every block's would take longer than the
// steps that are measured, and speed does not depend on it.
void fill_alike(ThreadPool& pool, engine::TrainingRun& run) {
  const model::Parameters& all = run.store().parameters();
  model::Parameters made;
  List<std::vector<int>> same;  // by made parameter: those it is written to
  const std::size_t first = all.blocks.front().parameters.size();
  for (std::size_t b = 0; b < all.blocks.size(); ++b) {
    const std::vector<int>& of_block = all.blocks[b].parameters;
    // Block 0 is the embedding and the last one the head: both are made, and of the blocks between
    // the first.
    const bool again = b > 1 && b + 1 < all.blocks.size();
    for (std::size_t k = 0; k < of_block.size(); ++k) {
      if (again) {
        same[first + k].push_back(of_block[k]);
        continue;
      }
      made.all.push_back(all.all[of_block[k]]);
      same.push_back({of_block[k]});
    }
  }
  files::initialize_weights(pool, run.settings().config, made, kSeed,
                            [&](int parameter, std::int64_t from, std::span<const float> values) {
                              run.store().write_master(same[parameter], from, values);
                            });
  run.store().clear_moments();
}

Bytes resident_state_bytes(const plan::Plan& resident) {
  Bytes bytes = 0;
  for (const plan::Chunk& chunk : resident.program.chunks) {
    bytes += plan::state_bytes(resident.workload, chunk);
  }
  return bytes;
}

MeasuredPlan describe(const plan::Plan& plan) {
  MeasuredPlan described{.flags = plan::flags_of(plan.choices),
                         .choices = plan.choices,
                         .predicted_seconds = plan.prediction.step_seconds};
  double all = 0;
  for (const plan::Chunk& chunk : plan.program.chunks) {
    const auto count = static_cast<double>(chunk.count);
    described.sites[static_cast<std::size_t>(chunk.site())] += count;
    all += count;
  }
  for (double& share : described.sites) share /= all;
  return described;
}

Peak peak_of(const engine::TrainingRun& run, plan::Tier tier) {
  return {.limit = run.plan().limits[tier],
          .predicted = run.plan().peak(tier),
          .measured = run.measured_peak(tier)};
}

}  // namespace

RowRunner::RowRunner(engine::Runtime& runtime, io::FileSystem& files,
                     const TrainBenchOptions& options)
    : runtime_(runtime), files_(files), options_(options), machine_(runtime.memory()) {}

engine::TrainingSettings RowRunner::settings_of(const TrainingRow& row) {
  TrainOptions train;
  train.sequence = row.sequence;
  train.micro_batch = row.micro_batch;
  train.accumulate = row.accumulate;
  train.state_format = row.format;
  train.schedule = LearningRateSchedule::constant;
  // So small that no loss explodes on made-up tokens: a norm that is not finite would end the row.
  train.learning_rate = 1e-5;
  train.steps = options_.warm_up + options_.steps;
  train.host_memory = options_.host_memory;
  const model::Config config = files::find_model(files_, row.model).config;
  const RowLimit limit = parse_limit(row.limit);
  if (limit.kind == RowLimit::Kind::bytes) train.device_memory = limit.bytes;
  if (limit.kind == RowLimit::Kind::off) train.offload_fraction = 1;
  if (limit.kind == RowLimit::Kind::resident) train.states = StatePlacement::resident;
  if (limit.kind == RowLimit::Kind::less) {
    TrainOptions resident = train;
    resident.states = StatePlacement::resident;
    resident.save_cheap = Blocks::none();  // a limit is not to be larger because memory was plenty
    resident.device_memory = kNoLimit;
    const plan::Plan plan =
        engine::plan_training(runtime_, engine::training_settings(resident, config, machine_));
    const auto less =
        static_cast<Bytes>(limit.share * static_cast<double>(resident_state_bytes(plan)));
    train.device_memory = std::min(machine_.device, plan.peak(plan::Tier::device) - less);
  }
  train.disk = options_.disk;
  engine::TrainingSettings settings = engine::training_settings(train, config, machine_);
  engine::add_disks_of(train, &files_, settings);
  return settings;
}

MeasuredPlan RowRunner::measure(const engine::TrainingSettings& settings, plan::Plan plan,
                                const engine::StartTimes& start, const Tell& tell) {
  MeasuredPlan measured = describe(plan);
  measured.start = start;
  // The shares of a row are guesses for the line that people see.
  tell("memory", 0);
  engine::TrainingRun run(runtime_, settings, std::move(plan));
  measured.start.lap("allocate");
  tell("weights", 0.1);
  fill_alike(runtime_.pool(), run);
  measured.start.lap("initialize");
  const std::vector<text::Batch> batches = made_up_batches(settings);
  const std::int64_t steps = options_.warm_up + options_.steps;
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    tell(fmt::format("step {}/{}", step + 1, steps),
         0.3 + 0.6 * static_cast<double>(step) / static_cast<double>(steps));
    run.step(batches);
    const Clock::time_point now = Clock::now();
    // A step flows into the next: what one takes is the time between their norms.
    const std::chrono::duration<double> took = now - last;
    last = now;
    if (step >= options_.warm_up) measured.step_seconds.push_back(took.count());
  }
  run.finish();
  measured.utilization = plan::measured_utilization(run.plan(), measured.seconds());
  measured.device = peak_of(run, plan::Tier::device);
  measured.host = peak_of(run, plan::Tier::host);
  if (!options_.disk.empty()) measured.disk = peak_of(run, engine::kDisk);
  tell("digest", 0.9);
  measured.digest = run.store().weights_digest();
  return measured;
}

RowResult RowRunner::run(const TrainingRow& row, const Tell& tell,
                         const std::function<void(const std::string&)>& found) {
  RowResult result{.row = row};
  try {
    const std::string model = fmt::format("row {}, {} {}", row.number, row.model, row.limit);
    const double parts = options_.against_hand_made ? kHandMadePlans + 1 : 1;
    const auto tell_part = [&](double part, const std::string& name) {
      return [&tell, name, part, parts](const std::string& now, double done) {
        tell(name + ": " + now, (part + done) / parts);
      };
    };
    engine::StartTimes start;
    tell(model + ": plan", 0);
    const engine::TrainingSettings settings = settings_of(row);
    result.parameters = model::parameters_of(settings.config).count();
    start.lap("limit");
    engine::choose_gemms(files_, runtime_, settings,
                         [&](const std::string& text) { tell(model + ": " + text, 0); });
    start.lap("search");
    const plan::Plan chosen = engine::plan_training(runtime_, settings);
    start.lap("plan");
    result.model_flops = plan::model_flops(chosen.workload);
    result.chosen = measure(settings, chosen, start, tell_part(0, model));
    if (!options_.against_hand_made) return result;
    const auto tokens = static_cast<double>(chosen.workload.tokens * chosen.workload.micro_batches);
    for (HandMadePlan& other : hand_made_plans(chosen)) {
      const auto part = static_cast<double>(result.hand_made.size() + 1);
      const std::string name = fmt::format("{}, {}", model, other.name);
      MeasuredPlan measured =
          other.plan.choices == chosen.choices
              // Equal choices are equal runs: measuring them again would only add noise.
              ? *result.chosen
              : measure(settings, std::move(other.plan), {}, tell_part(part, name));
      measured.name = other.name;
      found(fmt::format("{}: {:.0f} tokens/s", name, tokens / measured.seconds()));
      result.hand_made.push_back(std::move(measured));
    }
    // A row that does not fit, or a device that fails, says so in its line; the other rows still
    // run.
  } catch (const OutOfBudget& error) {
    result.refusal = error.what();
  } catch (const DeviceError& error) {
    result.refusal = error.what();
    result.failed = true;
  }
  return result;
}

}  // namespace ebb::measure
