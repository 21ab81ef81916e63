// One run of training from the first file to the summary, a step at a time: model and data in,
// steps, checkpoints, a log and figures out. What is whole in memory when a step fails is saved
// before that is told.
//
// For one thread. In this order: the session is made, plan() may be asked, start(), step() until it
// returns nothing, with validate() and save() between, finish() once.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/json.h"
#include "ebb/train.h"
#include "engine/open_model.h"
#include "engine/rank_group.h"
#include "engine/run_pictures.h"
#include "engine/runtime.h"
#include "engine/saving.h"
#include "engine/step_log.h"
#include "engine/summary.h"
#include "engine/trace_file.h"
#include "engine/training_data.h"
#include "engine/training_run.h"
#include "files/model/sidecar_files.h"
#include "files/run/run_folder.h"
#include "files/run/training_state.h"
#include "io/posix_file_system.h"
#include "io/stoppable_file_system.h"

namespace ebb::engine {

class TrainingSession {
 public:
  // What can be refused without reading a model is refused first: people wait for the rest. `model`
  // is shared; null: the session opens the one that the options name. The observer must outlive it.
  // `stop` ends a run as the observer's stop_requested() does, and already while this is made and
  // started: then Cancelled is thrown.
  TrainingSession(TrainOptions options, std::shared_ptr<const OpenModel> model,
                  TrainObserver& observer, std::stop_token stop);
  ~TrainingSession();

  // The first call checks the checkpoint to go on from, if there is one, and plans; no memory is
  // taken. Throws OutOfBudget.
  const plan::Plan& plan();

  // Takes the memory, fills the weights, opens the log. The first call alone does.
  void start();

  // Nothing when all steps are done or the run was stopped. Validates and saves where the options
  // say so. Throws what failed, after what is whole was saved: then only the destructor may follow.
  std::optional<StepReport> step();

  // The mean loss over what the options say to validate on; nothing where they say nothing, or it
  // was stopped.
  std::optional<double> validate();

  // A checkpoint of now, and its folder. Throws IoError where it cannot be made, ConfigError where
  // the options say that nothing is saved.
  std::string save();

  TrainSummary finish();

 private:
  void or_save(const std::function<void()>& work);
  std::unique_ptr<files::RunFolder> open_folder(const TrainOptions& options);
  TrainOptions options_of_ranks(TrainOptions options);
  MachineMemory machine() const { return ranks_.share_of(runtime_.memory()); }
  bool saves() const {
    return options_.keep > 0 && options_.save_every.kind != SaveEvery::Kind::never;
  }
  void fail_together(const std::exception_ptr& failure);
  TrainingSettings settings_with_tokenizer();
  Note note();
  Note note_while_starting();
  bool stop_requested();
  bool stop_requested_quietly();
  void restore_state(const std::filesystem::path& folder);
  void fill_parameters();
  void make_saving();
  StepReport train_step();
  std::optional<double> run_validation();
  TrainSummary conclude();
  std::string summary();
  void remember_data();
  std::string save_what_is_whole();
  void write_trace();
  void count_data(std::span<const text::Batch> batches);
  bool draw_step(bool at_end);
  std::vector<TierMemory> memory() const;
  StepReport tell(const StepResult& result, double seconds);

  using Clock = std::chrono::steady_clock;
  using Path = std::filesystem::path;

  // Ranks other than the first say nothing; they may be asked to stop.
  class QuietObserver final : public TrainObserver {
   public:
    explicit QuietObserver(TrainObserver& observer) : observer_(observer) {}
    void note(const std::string&) override {}
    void started() override { observer_.started(); }
    void step(const StepReport&) override {}
    bool stop_requested() override { return observer_.stop_requested(); }

   private:
    TrainObserver& observer_;
  };

  RankGroup ranks_;
  QuietObserver quiet_;
  TrainObserver& observer_;
  std::stop_token stop_;
  io::PosixFileSystem files_;
  io::StoppableFileSystem starting_files_;    // of what may be stopped: nothing is written to it
  std::unique_ptr<files::RunFolder> folder_;  // rank 0's
  std::optional<Path> start_;                 // the checkpoint to go on from
  const TrainOptions options_;                // with the micro-batches of all ranks
  TraceFile trace_;
  Runtime runtime_;
  std::shared_ptr<const OpenModel> model_;
  files::SidecarFiles sidecar_files_;
  TrainingSettings settings_;
  TrainingData data_;
  Json key_;
  files::TrainingState state_;
  states::StateFormat stored_format_ = states::StateFormat::exact;
  std::optional<plan::Plan> plan_;  // until the run has it
  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Saving> saving_;  // rank 0's, and the log
  std::unique_ptr<StepLog> log_;
  std::unique_ptr<RunPictures> pictures_;
  std::unique_ptr<text::ValidationBatches> validation_;
  std::unique_ptr<text::Prefetcher> prefetch_;
  RunFigures figures_;
  std::deque<double> recent_;   // seconds of the last steps
  Clock::time_point before_{};  // when the step before ended, less what was not training since
  Clock::time_point left_{};    // when the caller was last given back control
  std::int64_t validated_step_ = -1;
  bool started_ = false;
  bool stopped_ = false;
  bool failed_ = false;
};

}  // namespace ebb::engine
