// Training from the command line's point of view: files in, steps, checkpoints and a summary out.
#include "ebb/train.h"

#include <chrono>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "checkpoint/folder.h"
#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/data_check.h"
#include "engine/data_notes.h"
#include "engine/disk_tier.h"
#include "engine/machine_profile.h"
#include "engine/model_source.h"
#include "engine/model_tokenizer.h"
#include "engine/numerics_key.h"
#include "engine/process_report.h"
#include "engine/product_choices.h"
#include "engine/run_folder.h"
#include "engine/saving.h"
#include "engine/settings.h"
#include "engine/step_log.h"
#include "engine/summary.h"
#include "engine/trace_file.h"
#include "engine/training_data.h"
#include "engine/training_run.h"
#include "io/posix_file_system.h"
#include "kernels/counting_ops.h"
#include "kernels/estimated_needs.h"
#include "plan/explain.h"
#include "plan/light.h"

namespace ebb {
namespace engine {
namespace {

void compare_with(const TrainingState& state, const Json& key, TrainObserver& observer) {
  std::string wrong;
  for (const KeyDifference& difference : compare_keys(state.numerics_key, key)) {
    if (difference.field == "data.digest" || difference.field == "data.content") {
      continue;  // compared file by file
    }
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

// The same kind of error, so that programs can still tell it, with a sentence more.
[[noreturn]] void rethrow_with(const std::exception_ptr& failure, const std::string& more) {
  const auto text = [&](const std::exception& error) {
    return fmt::format("{}\n{}", error.what(), more);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const NumericsError& error) {
    throw NumericsError(text(error));
  } catch (const DeviceError& error) {
    throw DeviceError(text(error));
  } catch (const IoError& error) {
    throw IoError(text(error));
  } catch (const FormatError& error) {
    throw FormatError(text(error));
  } catch (const ConfigError& error) {
    throw ConfigError(text(error));
  } catch (const std::exception& error) {
    throw Error(text(error));
  }
}

// Tells how far the weights are, now and then.
class FillProgress {
 public:
  FillProgress(const model::Parameters& parameters, TrainObserver& observer, std::string what)
      : observer_(observer), what_(std::move(what)) {
    for (const model::Parameter& parameter : parameters.all) total_ += parameter.count();
  }

  void add(std::size_t count) {
    done_ += static_cast<std::int64_t>(count);
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::seconds(5)) return;
    told_ = now;
    observer_.note(
        fmt::format("{}: {} of {} parameters", what_, format_count(done_), format_count(total_)));
  }

 private:
  TrainObserver& observer_;
  std::string what_;
  std::int64_t done_ = 0;
  std::int64_t total_ = 0;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

// One run of train(): owns everything from the first file to the summary.
class Session {
 public:
  // What can be refused without reading a model is refused first: people wait for the rest.
  Session(const TrainOptions& options, TrainObserver& observer)
      : options_(options),
        observer_(observer),
        folder_(files_, options.out, options.resume, note()),
        trace_(files_, options.trace),
        runtime_(options.device, check_threads(options.threads)),
        source_(find_model(files_, options.model)),
        tokenizer_(find_tokenizer(source_, options.tokenizer,
                                  limits_within(runtime_.memory(), options.device_memory,
                                                options.host_memory)[plan::Tier::host])),
        companions_(find_companions(files_, source_, tokenizer_.folder, tokenizer_.parts.files)),
        settings_(settings_with_tokenizer()),
        data_(options, tokenizer_, source_.config.vocabulary, runtime_.threads(), note()) {
    settings_.extras.push_back({plan::Tier::host, "data", data_.memory_bytes()});
  }

  TrainSummary run() {
    for (const std::string& note : {source_.head_note, source_.dropout_note}) {
      if (!note.empty()) observer_.note(note);
    }
    observer_.note(load_profile(files_, runtime_, options_.profile));
    figures_.start = {};
    const auto& start = folder_.start();
    if (start) {
      restore_state(*start);
    } else {
      if (options_.verify) verify_model(files_, source_);
      choose_products(files_, runtime_, settings_, note());
      key_ = numerics_key(runtime_, settings_, options_.seed, data_.key());
    }
    figures_.start.lap(start ? "check" : "search");
    plan::Plan plan = plan_training(runtime_, settings_);
    figures_.start.lap("plan");
    observer_.note(plan::explain(plan) +
                   explain_disk(plan, options_.steps, options_.disk_endurance));
    TrainingRun run(runtime_, settings_, std::move(plan));
    figures_.start.lap("allocate");
    fill_parameters(run, start);
    if (start) compare_all_data(state_, data_, options_.accept_changed_data, note());
    figures_.start.lap("initialize");
    observer_.note("Started: " + figures_.start.text());
    Saving saving(files_, folder_.path(), run.store(), companions_,
                  {.every = options_.save_every,
                   .keep = options_.keep,
                   .patience_seconds = options_.save_patience_seconds,
                   .stop_requested = [this] { return stop_requested(); }},
                  start ? state_.step : -1, note());
    if (start) saving.set_last(start->string());
    saving.check_space();
    StepLog log(files_, folder_.path() / "log.jsonl", state_.step, note());
    validation_ = data_.validation();
    const TrainSummary summary = train_or_save(run, saving, log);
    write_trace(run);
    return summary;
  }

 private:
  // Before data is read, which may render conversations.
  TrainingSettings settings_with_tokenizer() {
    TrainingSettings settings = training_settings(options_, source_.config, runtime_.memory());
    add_disks_of(options_, &files_, settings, note());
    settings.extras.push_back({plan::Tier::host, "tokenizer", tokenizer_.memory_bytes()});
    if (!tokenizer_.parts.chat) return settings;
    const int readers = TrainingData::readers(runtime_.threads());
    const Bytes rendering = rendering_memory(settings.limits[plan::Tier::host], readers);
    tokenizer_.parts.chat->limit_memory(static_cast<std::size_t>(rendering));
    settings.extras.push_back({plan::Tier::host, "chat rendering", readers * rendering});
    return settings;
  }

  Note note() {
    return [this](const std::string& text) { observer_.note(text); };
  }

  // While it saves: an output that nobody reads any more is no reason not to.
  bool stop_requested() {
    try {
      return observer_.stop_requested();
    } catch (const std::exception&) {
      return true;
    }
  }

  TrainSummary train(TrainingRun& run, Saving& saving, StepLog& log) {
    observer_.started();
    train_steps(run, saving, log);
    for (const std::string& text : all_left_out(figures_.left_out)) observer_.note(text);
    run.finish();
    if (saving.wanted()) remember_data();
    saving.save_finally(state_);
    if (!stopped_) validate(run, log);
    observer_.note(explain(report_process(run, runtime_)));
    return {.steps = state_.step,
            .stopped = stopped_,
            .checkpoint = saving.last(),
            .json = options_.summarize ? summary(run) : std::string()};
  }

  std::string summary(TrainingRun& run) {
    remember_data();
    figures_.accepted_data_changes = state_.accepted_changes;
    return summarize(run, runtime_, state_.numerics_key, figures_);
  }

  // What the data holds may be known only long after the first step. The first save waits for it;
  // who stops a run does not wait for long.
  void remember_data() {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> stopped;
    record_data(state_, data_, note(), [&] {
      if (!stopped && stop_requested()) stopped = Clock::now();
      return !stopped || Clock::now() - *stopped < kHurry;
    });
    if (const auto training = state_.data.find("training"); training != state_.data.end()) {
      state_.numerics_key["data"]["content"] = training->value("content", Json());
    }
  }

  // Whatever ends the run, bad data or an output that nobody reads any more: what was trained up to
  // then is saved before that is told.
  TrainSummary train_or_save(TrainingRun& run, Saving& saving, StepLog& log) {
    try {
      return train(run, saving, log);
    } catch (const std::exception& error) {
      const std::exception_ptr failure = std::current_exception();
      const bool of_disk = dynamic_cast<const IoError*>(&error) != nullptr;
      if (of_disk && run.executor().failed_step()) saving.lose_patience();
      const std::string rest = save_what_is_whole(run, saving);
      write_trace(run);
      rethrow_with(failure, rest);
    }
  }

  // A sentence on what there is to go on from.
  std::string save_what_is_whole(TrainingRun& run, Saving& saving) {
    std::string lost;
    // Not where nothing was trained, nor once more where the failure is the last save's own.
    const bool to_save = state_.step > 0 && !saving.gave_up();
    try {
      if (to_save && !run.settle()) {
        lost = "What was trained since the last save is lost. ";
      } else if (to_save) {
        if (saving.wanted()) remember_data();
        saving.save_finally(state_);
      }
    } catch (const std::exception& error) {
      lost = fmt::format("Step {} could not be saved: {}\n", state_.step, error.what());
    }
    if (saving.last().empty()) return lost + "There is no checkpoint to go on from.";
    return lost +
           fmt::format("The last checkpoint is {}: --resume goes on from it.", saving.last());
  }

  // A trace that cannot be written now is no reason to lose the run's summary, or the error that
  // ended it.
  void write_trace(TrainingRun& run) {
    if (!trace_.wanted()) return;
    try {
      trace_.write(run.trace());
      observer_.note("Wrote " + options_.trace + ": open it at ui.perfetto.dev");
    } catch (const std::exception& error) {
      observer_.note(error.what());
    }
  }

  void restore_state(const std::filesystem::path& folder) {
    verify_checkpoint(files_, folder);
    state_ = read_training_state(files_, folder);
    use_stored_products(runtime_, settings_, state_.numerics_key.value("machine", Json()));
    key_ = numerics_key(runtime_, settings_, options_.seed, data_.key());
    compare_with(state_, key_, observer_);
    compare_known_data(state_, data_, options_.accept_changed_data);
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
    FillProgress progress(run.store().parameters(), observer_,
                          source_.folder.empty() ? "Making weights" : "Loading weights");
    const WeightSink sink = [&](int parameter, std::int64_t first, std::span<const float> values) {
      run.store().write_master(parameter, first, values);
      progress.add(values.size());
    };
    if (source_.folder.empty()) {
      initialize_weights(runtime_.pool(), source_.config, run.store().parameters(), options_.seed,
                         sink);
    } else {
      load_weights(files_, source_, run.store().parameters(), sink);
    }
    run.store().clear_moments();
  }

  void train_steps(TrainingRun& run, Saving& saving, StepLog& log) {
    if (state_.step >= options_.steps) {
      observer_.note(fmt::format("Step {} of {} is already reached: nothing to train", state_.step,
                                 options_.steps));
      return;
    }
    text::Prefetcher prefetch = data_.batches(state_.data_position);
    auto before = std::chrono::steady_clock::now();
    while (state_.step < options_.steps && !stopped_) {
      const std::vector<text::Batch> batches = prefetch.next_step(options_.accumulate);
      const StepResult result = run.step(batches);
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
      if (saving.due(state_.step) && state_.step < options_.steps && !stopped_) {
        run.finish();
        remember_data();
        saving.save(state_);
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
      if (observer_.stop_requested()) {
        stopped_ = true;
        observer_.note("The validation was stopped before its end, and is not told");
        return;
      }
      const Evaluation one = run.evaluate(*batch);
      all.loss_sum += one.loss_sum;
      all.counted += one.counted;
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

  void count_data(std::span<const text::Batch> batches) {
    text::LeftOut now;
    for (const text::Batch& batch : batches) {
      figures_.counted_tokens += batch.counted;
      now.add(batch.left_out);
    }
    for (const std::string& text :
         first_left_out(figures_.left_out, now, state_.step, options_.sequence)) {
      observer_.note(text);
    }
    figures_.left_out.add(now);
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

  static constexpr std::chrono::seconds kHurry{2};

  const TrainOptions& options_;
  TrainObserver& observer_;
  io::PosixFileSystem files_;
  RunFolder folder_;
  TraceFile trace_;
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
  std::unique_ptr<text::ValidationBatches> validation_;
  std::int64_t validated_step_ = -1;
  bool stopped_ = false;
};

// A plan without data counts what is known without it.
void count_tokenizer(TrainingSettings& settings, const ModelSource& source,
                     const TrainOptions& options) {
  if (options.tokenizer.empty() && (source.folder.empty() || !text::has_tokenizer(source.folder))) {
    return;
  }
  const ModelTokenizer tokenizer =
      find_tokenizer(source, options.tokenizer, settings.limits[plan::Tier::host]);
  settings.extras.push_back({plan::Tier::host, "tokenizer", tokenizer.memory_bytes()});
}

// On a machine that need not be here.
std::string explain_elsewhere(io::FileSystem& files, const TrainOptions& options,
                              const ModelSource& source, const std::string& machine) {
  if (!options.profile.empty()) {
    throw ConfigError("--profile: speeds of this machine say nothing of --machine; give one only");
  }
  TraceFile trace(files, options.trace);
  const plan::Profile profile = find_machine(files, machine);
  if (options.device != "auto" && options.device != profile.device) {
    throw ConfigError(fmt::format("--device {}: the machine is a {} one; leave --device out",
                                  options.device, profile.device));
  }
  TrainingSettings settings = training_settings(options, source.config,
                                                {.device = profile.device_memory,
                                                 .host = profile.host_memory,
                                                 .shared = profile.device == "cpu"});
  add_disks_of(options, nullptr, settings);
  count_tokenizer(settings, source, options);
  const auto needs = kernels::estimate_needs(profile.device, profile.cores);
  kernels::CountingOps ops(*needs);
  const plan::Plan plan = plan_training(ops, profile, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return fmt::format(
      "{}{}{}Speeds of {}:\n{}Workspaces are estimates: the libraries of that machine were not "
      "asked.\n",
      plan::explain(plan), explain_disk(plan, options.steps, options.disk_endurance),
      plan::explain(alternatives_to(plan, ops, profile, settings)), profile.name,
      plan::explain_speeds(profile));
}

}  // namespace
}  // namespace engine

TrainSummary train(const TrainOptions& options, TrainObserver& observer) {
  return engine::Session(options, observer).run();
}

std::string explain_plan(const TrainOptions& options, const std::string& machine) {
  io::PosixFileSystem files;
  const engine::ModelSource source = engine::find_model(files, options.model);
  if (!machine.empty()) return engine::explain_elsewhere(files, options, source, machine);
  engine::TraceFile trace(files, options.trace);
  engine::Runtime runtime(options.device, engine::check_threads(options.threads));
  const std::string speeds = engine::load_profile(files, runtime, options.profile);
  engine::TrainingSettings settings =
      engine::training_settings(options, source.config, runtime.memory());
  engine::add_disks_of(options, &files, settings);
  engine::count_tokenizer(settings, source, options);
  const plan::Plan plan = engine::plan_training(runtime, settings);
  if (trace.wanted()) trace.write(plan::predicted_trace(plan));
  return plan::explain(plan) + engine::explain_disk(plan, options.steps, options.disk_endurance) +
         plan::explain(engine::alternatives_to(plan, runtime, settings)) + speeds + "\n" +
         plan::explain_speeds(runtime.profile());
}

}  // namespace ebb
