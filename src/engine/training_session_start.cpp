// How a session begins: what can be refused is refused, then the plan, the memory, the weights.
#include "engine/training_session.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/data_check.h"
#include "engine/disk_tier.h"
#include "engine/fill_progress.h"
#include "engine/gemm_cache.h"
#include "engine/machine_profile.h"
#include "engine/numerics_key.h"
#include "engine/opening_lines.h"
#include "engine/resuming.h"
#include "engine/settings.h"
#include "io/text_file.h"
#include "plan/explain.h"

namespace ebb::engine {

TrainingSession::TrainingSession(TrainOptions options, std::shared_ptr<const OpenModel> model,
                                 TrainObserver& observer, std::stop_token stop)
    : ranks_(options),
      quiet_(observer),
      observer_(ranks_.leads() ? observer : quiet_),
      stop_(std::move(stop)),
      starting_files_(files_, stop_),
      folder_(open_folder(options)),
      start_(ranks_.agree_on(folder_ ? folder_->start() : std::nullopt)),
      options_(options_of_ranks(std::move(options))),
      trace_(files_, options_.trace),
      runtime_(options_.device, check_threads(options_.threads)),
      model_(model ? std::move(model)
                   : open_model(starting_files_, options_.model, options_.tokenizer,
                                limits_within(machine(), options_.device_memory,
                                              options_.host_memory)[plan::Tier::host],
                                TrainingData::readers(runtime_.threads()))),
      sidecar_files_(files::find_sidecar_files(files_, model_->source, model_->tokenizer.folder,
                                               model_->tokenizer.parts.files,
                                               model_->tokenizer.made)),
      settings_(settings_with_tokenizer()),
      data_(files_, options_, model_->tokenizer, model_->source.config.vocabulary,
            runtime_.threads(), note_while_starting()) {
  settings_.extras.push_back({plan::Tier::host, "data", data_.memory_bytes()});
}

TrainingSession::~TrainingSession() = default;

std::unique_ptr<files::RunFolder> TrainingSession::open_folder(const TrainOptions& options) {
  if (!ranks_.leads()) return nullptr;
  return std::make_unique<files::RunFolder>(files_, options.out, options.resume,
                                            note_while_starting());
}

// A step has as many micro-batches as it had before, on however many ranks.
TrainOptions TrainingSession::options_of_ranks(TrainOptions options) {
  options.threads = ranks_.threads(check_threads(options.threads));
  if (ranks_.alone()) return options;
  if (!ranks_.leads()) options.trace.clear();
  const std::int64_t given = options.accumulate;
  options.accumulate *= ranks_.count();
  if (!start_) return options;
  const std::int64_t stored =
      files::read_training_state(files_, *start_).numerics_key.value("accumulate", given);
  if (stored != options.accumulate) {
    observer_.note(
        fmt::format("--accumulate {} on {} ranks: the run has {} micro-batches a step, "
                    "and goes on with these",
                    given, ranks_.count(), stored));
    options.accumulate = stored;
  }
  return options;
}

// Before data is read, which may render conversations.
TrainingSettings TrainingSession::settings_with_tokenizer() {
  TrainingSettings settings = training_settings(options_, model_->source.config, machine());
  settings.ranks = ranks_.communicator();
  RunPictures::keep_times(options_, settings);
  add_disks_of(options_, &files_, settings, note());
  settings.extras.push_back({plan::Tier::host, "tokenizer", model_->tokenizer.memory_bytes()});
  if (const Bytes rendering = model_->rendering_bytes(); rendering > 0) {
    const int readers = TrainingData::readers(runtime_.threads());
    settings.extras.push_back({plan::Tier::host, "chat rendering", readers * rendering});
  }
  return settings;
}

const plan::Plan& TrainingSession::plan() {
  // The plan moves into the run when that is made.
  if (run_) return run_->plan();
  if (plan_) return *plan_;
  for (const std::string& note :
       {model_->source.head_note, model_->source.dropout_note, note_on_positions(settings_)}) {
    if (!note.empty()) observer_.note(note);
  }
  observer_.detail(load_profile(files_, runtime_, options_.profile));
  figures_.start = {};
  if (start_) {
    restore_state(*start_);
  } else {
    if (options_.verify) files::verify_model(starting_files_, model_->source);
    // Before the key, which holds the choices.
    choose_gemms(files_, runtime_, settings_, note_while_starting());
    key_ = numerics_key(runtime_, settings_, options_.seed, data_.key());
  }
  ranks_.check_same(options_, key_);
  figures_.start.lap(start_ ? "check" : "search");
  io::check_stop(stop_);
  plan_ = plan_training(runtime_, settings_);
  figures_.start.lap("plan");
  observer_.detail(plan::explain(*plan_) +
                   explain_disk(*plan_, options_.steps, options_.disk_endurance));
  observer_.note(opening_lines(*plan_, settings_, options_, state_.step));
  return *plan_;
}

void TrainingSession::restore_state(const std::filesystem::path& folder) {
  files::verify_checkpoint(starting_files_, folder);
  state_ = files::read_training_state(files_, folder);
  // The algorithms that the run began with: others would round otherwise.
  use_stored_gemms(runtime_, settings_, state_.numerics_key.value("machine", Json()));
  key_ = numerics_key(runtime_, settings_, options_.seed, data_.key());
  compare_settings(state_, key_, settings_.schedule, note());
  compare_known_data(state_, data_, options_.accept_changed_data);
  stored_format_ = stored_format(state_);
  observer_.note(fmt::format("Going on from step {} in {}", state_.step, folder.string()));
}

void TrainingSession::start() {
  if (failed_) throw Error("the run has failed: make another one, which may go on from its files");
  if (started_) return;
  plan();
  io::check_stop(stop_);
  run_ = std::make_unique<TrainingRun>(runtime_, settings_, std::move(*plan_));
  plan_.reset();
  failed_ = true;  // unless it comes to the end: what is half filled is no run
  figures_.start.lap("allocate");
  fill_parameters();
  if (start_) {
    // Whole files are read for it, so it comes last: what is cheap to refuse was refused before.
    compare_all_data(state_, data_, options_.accept_changed_data, note_while_starting());
  }
  figures_.start.lap("initialize");
  io::check_stop(stop_);
  observer_.detail("Started: " + figures_.start.text());
  if (folder_) {
    make_saving();
    if (!options_.settings.empty()) {
      io::write_text_atomically(files_, folder_->path() / kSettingsName, options_.settings);
    }
    log_ = std::make_unique<StepLog>(files_, folder_->path(), state_.step, options_.log, note());
    pictures_ = std::make_unique<RunPictures>(files_, folder_->path(), note());
    pictures_->write_plan(*run_, runtime_, options_, key_,
                          plan::explain(run_->plan()) +
                              explain_disk(run_->plan(), options_.steps, options_.disk_endurance));
  }
  validation_ = data_.validation();
  failed_ = false;
  started_ = true;
  // From here on there is something to save, whatever fails.
  or_save([&] {
    observer_.started();
    // Batches are read ahead from now on, on threads of their own.
    if (state_.step < options_.steps) {
      prefetch_.reset(new text::Prefetcher(data_.batches(state_.data_position)));
    } else {
      observer_.note(fmt::format("Step {} of {} is already reached: nothing to train", state_.step,
                                 options_.steps));
    }
  });
  before_ = left_ = Clock::now();
}

void TrainingSession::fill_parameters() {
  state_.seed = options_.seed;
  state_.numerics_key = key_;
  if (start_) {
    load_checkpoint(starting_files_, *start_, stored_format_, run_->store());
    run_->set_steps_done(state_.step);
    return;
  }
  const files::ModelSource& source = model_->source;
  FillProgress progress(run_->store().parameters(), note(),
                        !source.has_weights() ? "Making weights" : "Loading weights");
  const files::WeightSink sink = [&](int parameter, std::int64_t first,
                                     std::span<const float> values) {
    io::check_stop(stop_);
    run_->store().write_master(parameter, first, values);
    progress.add(values.size());
  };
  if (!source.has_weights()) {
    files::initialize_weights(runtime_.pool(), source.config, run_->store().parameters(),
                              options_.seed, sink);
  } else {
    files::load_weights(starting_files_, source, run_->store().parameters(), sink);
  }
  run_->store().clear_moments();
}

void TrainingSession::make_saving() {
  auto saving = std::make_unique<Saving>(
      files_, folder_->path(), run_->store(), sidecar_files_,
      SavingSettings{.every = options_.save_every,
                     .keep = options_.keep,
                     .patience_seconds = options_.save_patience_seconds,
                     .stop_requested = [this] { return stop_requested_quietly(); }},
      start_ ? state_.step : -1, note());
  if (start_) saving->set_last(start_->string());
  // A run that could not be saved is refused before its first step.
  saving->check_space();
  saving_ = std::move(saving);
}

}  // namespace ebb::engine
