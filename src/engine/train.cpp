// Training from the command line's point of view: files in, steps, checkpoints and a summary out.
#include "ebb/train.h"

#include <chrono>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "checkpoint/folder.h"
#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/machine_profile.h"
#include "engine/model_source.h"
#include "engine/model_tokenizer.h"
#include "engine/numerics_key.h"
#include "engine/product_choices.h"
#include "engine/settings.h"
#include "engine/step_log.h"
#include "engine/summary.h"
#include "engine/trace_file.h"
#include "engine/training_data.h"
#include "engine/training_run.h"
#include "io/posix_file_system.h"
#include "kernels/absent_ops.h"
#include "plan/explain.h"
#include "plan/light.h"

namespace ebb {
namespace engine {
namespace {

// The checkpoint to go on from, if the user asked for one and there is one.
std::optional<std::filesystem::path> find_start(io::FileSystem& files, const TrainOptions& options,
                                                TrainObserver& observer) {
  if (options.out.empty()) throw ConfigError("--out: a folder for the run is missing");
  const bool exists = files.exists(options.out);
  if (exists && !files.is_directory(options.out)) {
    throw ConfigError(fmt::format(
        "--out {}: this is a file; give the path of a folder, new or empty", options.out));
  }
  const auto latest = exists ? checkpoint::latest_checkpoint(files, options.out) : std::nullopt;
  if (options.resume) {
    if (!latest) {
      observer.note(
          fmt::format("--resume: no checkpoint in {}; starting from the beginning", options.out));
    }
    return latest;
  }
  if (exists && !files.list(options.out).empty()) {
    throw ConfigError(fmt::format("--out {}: the folder is not empty. {}", options.out,
                                  latest
                                      ? "Add --resume to go on from its last checkpoint, or give "
                                        "another folder."
                                      : "Give another folder, or empty it."));
  }
  return std::nullopt;
}

void compare_with(const TrainingState& state, const Json& key, TrainObserver& observer) {
  std::string wrong;
  for (const KeyDifference& difference : compare_keys(state.numerics_key, key)) {
    if (difference.field == kStateFormatField) {
      observer.note(fmt::format("The checkpoint's states are {}: they are converted to {}, once",
                                difference.stored, difference.given));
      continue;
    }
    const std::string line = fmt::format("\n  {}: {} in the checkpoint, {} now", difference.field,
                                         difference.stored, difference.given);
    if (difference.machine) {
      observer.note("Not the machine of the checkpoint; the run goes on, but not to the bit:" +
                    line);
    } else {
      wrong += line;
    }
  }
  if (!wrong.empty()) {
    throw ConfigError("--resume: the checkpoint was made with other settings:" + wrong +
                      "\nGive the same settings, or start a new run in another --out.");
  }
}

optim::StateFormat stored_format(const TrainingState& state) {
  using enum optim::StateFormat;
  const Json stored = state.numerics_key.value(kStateFormatField, Json());
  for (const optim::StateFormat format : {exact, bf16, int8}) {
    if (stored == kernels::stored_name_of(format)) return format;
  }
  throw FormatError(fmt::format("{}: the numerics key's {} should be {}, {} or {}, found {}",
                                kTrainingName, kStateFormatField, kernels::stored_name_of(exact),
                                kernels::stored_name_of(bf16), kernels::stored_name_of(int8),
                                stored.dump()));
}

// One run of train(): owns everything from the first file to the summary.
class Session {
 public:
  Session(const TrainOptions& options, TrainObserver& observer)
      : options_(options),
        observer_(observer),
        runtime_(options.device, check_threads(options.threads)),
        source_(find_model(files_, options.model)),
        tokenizer_(find_tokenizer(source_, options.tokenizer)),
        companions_(find_companions(files_, source_, tokenizer_.folder, tokenizer_.parts.files)),
        settings_(training_settings(options, source_.config, runtime_.limits())),
        data_(options, tokenizer_, source_.config.vocabulary, runtime_.threads(),
              [&observer](const std::string& text) { observer.note(text); }) {
    settings_.host_extra += data_.memory_bytes();
  }

  TrainSummary run() {
    observer_.note(load_profile(files_, runtime_, options_.profile));
    figures_.start = {};
    const auto start = find_start(files_, options_, observer_);
    TraceFile trace(files_, options_.trace);
    if (start) {
      restore_state(*start);
    } else {
      if (options_.verify) verify_model(files_, source_);
      choose_products(files_, runtime_, settings_,
                      [this](const std::string& text) { observer_.note(text); });
      key_ = numerics_key(runtime_, settings_, options_.seed, data_.key());
    }
    figures_.start.lap(start ? "check" : "search");
    plan::Plan plan = plan_training(runtime_, settings_);
    figures_.start.lap("plan");
    observer_.note(plan::explain(plan));
    TrainingRun run(runtime_, settings_, std::move(plan));
    figures_.start.lap("allocate");
    const memory::Reservation staging = run.host_ledger().reserve("staging", kStagingBytes);
    const memory::Reservation ready =
        run.host_ledger().reserve("batches", settings_.host_extra - kStagingBytes);
    fill_parameters(run, start);
    figures_.start.lap("initialize");
    observer_.note("Started: " + figures_.start.text());
    // What a crash left takes room that the next save may need.
    if (options_.resume && options_.keep > 0)
      checkpoint::keep_last(files_, options_.out, options_.keep);
    files_.make_directories(options_.out);
    StepLog log(std::filesystem::path(options_.out) / "log.jsonl", state_.step);
    saved_step_ = start ? state_.step : -1;
    if (start) checkpoint_ = start->string();

    validation_ = data_.validation();
    TrainSummary summary;
    try {
      summary = train(run, log);
    } catch (const std::exception&) {
      write_or_note(trace, run);
      throw;
    }
    write_or_note(trace, run);
    return summary;
  }

 private:
  TrainSummary train(TrainingRun& run, StepLog& log) {
    train_steps(run, log);
    run.finish();
    save(run);
    validate(run, log);
    return {.steps = state_.step,
            .stopped = stopped_,
            .checkpoint = checkpoint_,
            .json = options_.summarize ? summarize(run, runtime_, key_, figures_) : std::string()};
  }

  void write(TraceFile& trace, TrainingRun& run) {
    if (!trace.wanted()) return;
    trace.write(run.trace());
    observer_.note("Wrote " + options_.trace + ": open it at ui.perfetto.dev");
  }

  // A trace that cannot be written now is no reason to lose the run's summary, or the error that
  // ended it.
  void write_or_note(TraceFile& trace, TrainingRun& run) {
    try {
      write(trace, run);
    } catch (const std::exception& error) {
      observer_.note(error.what());
    }
  }

  void restore_state(const std::filesystem::path& folder) {
    checkpoint::verify(files_, folder);
    state_ = read_training_state(files_, folder);
    use_stored_products(runtime_, settings_, state_.numerics_key.value("machine", Json()));
    key_ = numerics_key(runtime_, settings_, options_.seed, data_.key());
    compare_with(state_, key_, observer_);
    stored_format_ = stored_format(state_);
    observer_.note(fmt::format("Going on from step {} in {}", state_.step, folder.string()));
  }

  void fill_parameters(TrainingRun& run, const std::optional<std::filesystem::path>& start) {
    state_.seed = options_.seed;
    state_.numerics_key = key_;
    if (start) {
      load_checkpoint(files_, *start, stored_format_, run.store());
      run.set_steps_done(state_.step);
      return;
    }
    const WeightSink sink = [&](int parameter, std::int64_t first, std::span<const float> values) {
      run.store().write_master(parameter, first, values);
    };
    if (source_.folder.empty()) {
      initialize_weights(runtime_.pool(), source_.config, run.store().parameters(), options_.seed,
                         sink);
    } else {
      load_weights(files_, source_, run.store().parameters(), sink);
    }
    run.store().clear_moments();
  }

  void train_steps(TrainingRun& run, StepLog& log) {
    if (state_.step >= options_.steps) {
      observer_.note(fmt::format("Step {} of {} is already reached: nothing to train", state_.step,
                                 options_.steps));
      return;
    }
    const auto accumulate = static_cast<int>(options_.accumulate);
    text::Prefetcher prefetch = data_.batches(state_.data_position);
    auto before = std::chrono::steady_clock::now();
    while (state_.step < options_.steps && !stopped_) {
      std::vector<text::Batch> batches;
      for (int m = 0; m < accumulate; ++m) batches.push_back(prefetch.next());
      const StepResult result = step(run, batches);
      const auto now = std::chrono::steady_clock::now();
      const double seconds = std::chrono::duration<double>(now - before).count();
      before = now;
      state_.step = run.steps_done();
      state_.data_position = batches.back().position_after;
      count_data(batches);
      tell(run, log, result, seconds);
      stopped_ = observer_.stop_requested();
      if (options_.eval_every > 0 && state_.step % options_.eval_every == 0) {
        validate(run, log);
        before = std::chrono::steady_clock::now();  // nor is validating training
      }
      if (options_.save_every > 0 && state_.step % options_.save_every == 0) {
        run.finish();
        save(run);
        before = std::chrono::steady_clock::now();  // and saving is not
      }
    }
    figures_.seconds_waiting_for_data = prefetch.waited_seconds();
  }

  void validate(TrainingRun& run, StepLog& log) {
    if (validation_ == nullptr || state_.step == validated_step_) return;
    const auto start = std::chrono::steady_clock::now();
    Evaluation all;
    validation_->rewind();
    while (const auto batch = validation_->next()) {
      const Evaluation one = run.evaluate(*batch);
      all.loss_sum += one.loss_sum;
      all.counted += one.counted;
    }
    if (all.counted == 0) {
      throw ConfigError(fmt::format(
          "none of the tokens to validate on counts for the loss; are the prompts longer than "
          "--sequence {}?",
          options_.sequence));
    }
    const double loss = all.loss_sum / static_cast<double>(all.counted);
    validated_step_ = state_.step;
    figures_.validation_losses.push_back(loss);
    figures_.validation_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log.add_validation(state_.step, loss, all.counted);
    observer_.note(
        fmt::format("Validation after step {}: loss {:.4f}, perplexity {:.2f}, over {} tokens",
                    state_.step, loss, std::exp(loss), all.counted));
  }

  // What a step that failed leaves behind is on disk.
  StepResult step(TrainingRun& run, std::span<const text::Batch> batches) {
    try {
      return run.step(batches);
    } catch (const NumericsError& error) {
      throw NumericsError(fmt::format(
          "{}\n{}", error.what(),
          checkpoint_.empty()
              ? "No checkpoint was saved yet: --save-every N keeps one every N steps."
              : fmt::format("The last checkpoint is {}: --resume goes on from it.", checkpoint_)));
    }
  }

  void count_data(std::span<const text::Batch> batches) {
    const bool told = figures_.cut_examples > 0;
    for (const text::Batch& batch : batches) {
      figures_.counted_tokens += batch.counted;
      figures_.cut_examples += batch.cut_examples;
      figures_.cut_tokens += batch.cut_tokens;
    }
    if (told || figures_.cut_examples == 0) return;
    observer_.note(fmt::format(
        "{} of the examples of step {} were longer than --sequence {} and lost {} tokens at their "
        "ends; there may be more. A larger --sequence keeps them whole, the summary counts all.",
        figures_.cut_examples, state_.step, options_.sequence, figures_.cut_tokens));
  }

  void tell(TrainingRun& run, StepLog& log, const StepResult& result, double seconds) {
    figures_.losses.push_back(result.loss);
    figures_.step_seconds.push_back(seconds);
    figures_.tokens += options_.sequence * options_.micro_batch * options_.accumulate;
    recent_.push_back(seconds);
    if (recent_.size() > 10) recent_.pop_front();
    double recent = 0;
    for (const double s : recent_) recent += s;
    recent /= static_cast<double>(recent_.size());
    const StepReport report{
        .step = state_.step,
        .steps = options_.steps,
        .loss = result.loss,
        .norm = result.norm,
        .learning_rate = run.learning_rate(state_.step),
        .tokens_per_second =
            static_cast<double>(options_.sequence * options_.micro_batch * options_.accumulate) /
            recent,
        .share_of_light = plan::measured_share_of_light(run.plan(), recent),
        .seconds_left = recent * static_cast<double>(options_.steps - state_.step),
        .device_bytes = run.measured_peak(plan::Tier::device)};
    log.add(report, seconds);
    observer_.step(report);
  }

  void save(TrainingRun& run) {
    if (state_.step == saved_step_ || options_.keep == 0) return;
    checkpoint_ =
        save_checkpoint(files_, options_.out, run.store(), companions_, state_, options_.keep)
            .string();
    saved_step_ = state_.step;
    observer_.note("Saved " + checkpoint_);
  }

  const TrainOptions& options_;
  TrainObserver& observer_;
  io::PosixFileSystem files_;
  Runtime runtime_;
  ModelSource source_;
  ModelTokenizer tokenizer_;
  Companions companions_;
  TrainingSettings settings_;
  TrainingData data_;
  Json key_;
  TrainingState state_;
  optim::StateFormat stored_format_ = optim::StateFormat::exact;
  RunFigures figures_;
  std::deque<double> recent_;
  std::string checkpoint_;
  std::int64_t saved_step_ = -1;
  std::unique_ptr<text::ValidationBatches> validation_;
  std::int64_t validated_step_ = -1;
  bool stopped_ = false;
};

// On a machine that need not be here.
std::string explain_elsewhere(io::FileSystem& files, const TrainOptions& options,
                              const model::Config& config, const std::string& machine) {
  if (!options.profile.empty()) {
    throw ConfigError("--profile: speeds of this machine say nothing of --machine; give one only");
  }
  TraceFile trace(files, options.trace);
  const plan::Profile profile = find_machine(files, machine);
  if (options.device != "auto" && options.device != profile.device) {
    throw ConfigError(fmt::format("--device {}: the machine is a {} one; leave --device out",
                                  options.device, profile.device));
  }
  const TrainingSettings settings = training_settings(
      options, config, {.device = profile.device_memory, .host = profile.host_memory});
  const auto ops = kernels::create_absent_ops(profile.device, profile.cores);
  const plan::Plan plan = plan_training(*ops, profile, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return fmt::format(
      "{}{}Speeds of {}:\n{}Workspaces are estimates: the libraries of that machine were not "
      "asked.\n",
      plan::explain(plan), plan::explain(alternatives_to(plan, *ops, profile, settings)),
      profile.name, plan::explain_speeds(profile));
}

}  // namespace
}  // namespace engine

TrainSummary train(const TrainOptions& options, TrainObserver& observer) {
  return engine::Session(options, observer).run();
}

std::string explain_plan(const TrainOptions& options, const std::string& machine) {
  io::PosixFileSystem files;
  const engine::ModelSource source = engine::find_model(files, options.model);
  if (!machine.empty()) return engine::explain_elsewhere(files, options, source.config, machine);
  engine::TraceFile trace(files, options.trace);
  engine::Runtime runtime(options.device, engine::check_threads(options.threads));
  const std::string speeds = engine::load_profile(files, runtime, options.profile);
  const engine::TrainingSettings settings =
      engine::training_settings(options, source.config, runtime.limits());
  const plan::Plan plan = engine::plan_training(runtime, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return plan::explain(plan) + plan::explain(engine::alternatives_to(plan, runtime, settings)) +
         speeds + "\n" + plan::explain_speeds(runtime.profile());
}

}  // namespace ebb
