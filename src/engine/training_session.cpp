#include "engine/training_session.h"

#include <cmath>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/data_check.h"
#include "engine/data_notes.h"
#include "engine/process_report.h"
#include "engine/rethrow.h"
#include "plan/utilization.h"

namespace ebb::engine {
namespace {

// A person who stops a run does not wait for longer than this until its data is read.
constexpr std::chrono::seconds kHurry{2};
constexpr std::size_t kRecentSteps = 10;

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

// Whatever ends the run, bad data or an output that nobody reads any more: what was trained up to
// then is saved before that is told.
void TrainingSession::or_save(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    failed_ = true;
    const std::exception_ptr failure = std::current_exception();
    // All ranks have the same norm. What else fails, fails on this one.
    const bool alike = dynamic_cast<const NumericsError*>(&error) != nullptr;
    if (!ranks_.alone() && !alike) fail_together(failure);
    const bool of_disk = dynamic_cast<const IoError*>(&error) != nullptr;
    if (of_disk && saving_ && run_->executor().failed_step()) saving_->lose_patience();
    const std::string rest = save_what_is_whole();
    write_trace();
    rethrow_with(failure, rest);
  }
}

// What the others have of the states cannot be saved without them, nor without this one.
void TrainingSession::fail_together(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const dist::RankError&) {
    // They know.
  } catch (const std::exception& error) {
    ranks_.communicator()->fail(error.what());
  }
  write_trace();
  if (!saving_) std::rethrow_exception(failure);
  rethrow_with(failure, saving_->last().empty()
                            ? "There is no checkpoint to go on from."
                            : fmt::format("What was trained since is lost. The last checkpoint is "
                                          "{}: --resume goes on from it.",
                                          saving_->last()));
}

Note TrainingSession::note() {
  return [this](const std::string& text) { observer_.note(text); };
}

// What takes long tells how far it is, and can be stopped there.
Note TrainingSession::note_while_starting() {
  return [this](const std::string& text) {
    io::check_stop(stop_);
    observer_.note(text);
  };
}

bool TrainingSession::stop_requested() {
  return stop_.stop_requested() || observer_.stop_requested();
}

// While it saves: an output that nobody reads any more is no reason not to.
bool TrainingSession::stop_requested_quietly() {
  try {
    return stop_requested();
  } catch (const std::exception&) {
    return true;
  }
}

std::optional<StepReport> TrainingSession::step() {
  start();
  if (ranks_.alone() && stop_.stop_requested()) stopped_ = true;
  if (stopped_ || state_.step >= options_.steps) return std::nullopt;
  std::optional<StepReport> report;
  or_save([&] {
    before_ += Clock::now() - left_;  // what the caller did is not training
    report = train_step();
    left_ = Clock::now();
  });
  return report;
}

StepReport TrainingSession::train_step() {
  const std::vector<text::Batch> batches = prefetch_->next_step(options_.accumulate);
  const StepResult result = run_->step(batches);
  const Clock::time_point now = Clock::now();
  const double seconds = seconds_between(before_, now);
  before_ = now;
  state_.step = run_->steps_done();
  state_.data_position = batches.back().position_after;
  count_data(batches);
  const StepReport report = tell(result, seconds);
  if (draw_step(false)) {
    before_ = Clock::now();  // drawing is not training
  }
  const RankGroup::Signals signals = ranks_.agree_on(
      {.stop = stop_requested(), .save = saving_ != nullptr && saving_->due(state_.step)});
  stopped_ = signals.stop;
  if (options_.eval_every > 0 && state_.step % options_.eval_every == 0) {
    run_validation();
    before_ = Clock::now();  // nor is validating training
  }
  if (signals.save && state_.step < options_.steps && !stopped_) {
    run_->finish();
    run_->store().together([&] {
      remember_data();
      saving_->save(state_);
    });
    before_ = Clock::now();  // and saving is not
  }
  return report;
}

std::optional<double> TrainingSession::validate() {
  start();
  std::optional<double> loss;
  or_save([&] { loss = run_validation(); });
  return loss;
}

std::optional<double> TrainingSession::run_validation() {
  if (validation_ == nullptr) return std::nullopt;
  if (state_.step == validated_step_) return figures_.validation_losses.back();
  const Clock::time_point start = Clock::now();
  Evaluation all;
  validation_->rewind();
  while (const auto batch = validation_->next()) {
    // Ranks validate alike, and stop behind it.
    if (ranks_.alone() && stop_requested()) {
      stopped_ = true;
      observer_.note("The validation was stopped before its end, and is not told");
      return std::nullopt;
    }
    const Evaluation one = run_->evaluate(*batch);
    all.loss_sum += one.loss_sum;
    all.loss_tokens += one.loss_tokens;
  }
  const double loss = all.loss_sum / static_cast<double>(all.loss_tokens);
  validated_step_ = state_.step;
  figures_.validation_losses.push_back(loss);
  figures_.validation_seconds += seconds_between(start, Clock::now());
  if (log_) log_->add_validation(state_.step, loss, all.loss_tokens);
  observer_.note(
      fmt::format("Validation after step {}: loss {:.4f}, perplexity {:.2f}, over {} tokens",
                  state_.step, loss, std::exp(loss), all.loss_tokens));
  return loss;
}

std::string TrainingSession::save() {
  start();
  if (!saves()) {
    throw ConfigError("--save-every, --keep: the run was told to save nothing, so it cannot");
  }
  run_->finish();
  run_->store().together([&] {
    remember_data();
    saving_->save_now(state_);
  });
  return saving_ ? saving_->last() : std::string();
}

TrainSummary TrainingSession::finish() {
  start();
  TrainSummary summary;
  or_save([&] { summary = conclude(); });
  write_trace();
  return summary;
}

TrainSummary TrainingSession::conclude() {
  if (prefetch_) figures_.seconds_waiting_for_data = prefetch_->waited_seconds();
  prefetch_.reset();
  for (const std::string& text : all_left_out(figures_.left_out)) observer_.note(text);
  run_->finish();
  draw_step(true);
  run_->store().together([&] {
    if (saving_->wanted()) remember_data();
    saving_->save_finally(state_);
  });
  if (!stopped_) run_validation();
  observer_.detail(explain(report_process(*run_, runtime_)));
  std::string json;
  if (options_.summarize) run_->store().together([&] { json = summary(); });
  return {.steps = state_.step,
          .stopped = stopped_,
          .checkpoint = saving_ ? saving_->last() : std::string(),
          .json = std::move(json)};
}

std::string TrainingSession::summary() {
  remember_data();
  figures_.accepted_data_changes = state_.accepted_changes;
  return summarize(*run_, runtime_, state_.numerics_key, figures_);
}

// What the data holds may be known only long after the first step. The first save waits for it; a
// run that is stopped does not wait for long.
void TrainingSession::remember_data() {
  std::optional<Clock::time_point> stopped;
  record_data(state_, data_, note(), [&] {
    if (!stopped && stop_requested_quietly()) stopped = Clock::now();
    return !stopped || Clock::now() - *stopped < kHurry;
  });
  if (const auto training = state_.data.find("training"); training != state_.data.end()) {
    state_.numerics_key["data"]["content"] = training->value("content", Json());
  }
}

// A sentence on what there is to go on from.
std::string TrainingSession::save_what_is_whole() {
  std::string lost;
  // Not where nothing was trained, nor once more where the failure is the last save's own.
  const bool to_save = state_.step > 0 && !(saving_ && saving_->gave_up());
  try {
    if (to_save && !run_->settle()) {
      lost = "What was trained since the last save is lost. ";
    } else if (to_save) {
      run_->store().together([&] {
        if (saving_->wanted()) remember_data();
        saving_->save_finally(state_);
      });
    }
  } catch (const std::exception& error) {
    lost = fmt::format("Step {} could not be saved: {}\n", state_.step, error.what());
  }
  if (!saving_) return lost;
  if (saving_->last().empty()) return lost + "There is no checkpoint to go on from.";
  return lost +
         fmt::format("The last checkpoint is {}: --resume goes on from it.", saving_->last());
}

// A trace that cannot be written now is no reason to lose the run's summary, or the error that
// ended it.
void TrainingSession::write_trace() {
  if (!trace_.wanted()) return;
  try {
    trace_.write(run_->trace());
    observer_.note("Wrote " + options_.trace + ": open it at ui.perfetto.dev");
  } catch (const std::exception& error) {
    observer_.note(error.what());
  }
}

void TrainingSession::count_data(std::span<const text::Batch> batches) {
  text::LeftOut now;
  for (const text::Batch& batch : batches) {
    figures_.counted_tokens += batch.loss_tokens;
    now.add(batch.left_out);
  }
  for (const std::string& text :
       first_left_out(figures_.left_out, now, state_.step, options_.sequence)) {
    observer_.note(text);
  }
  figures_.left_out.add(now);
}

bool TrainingSession::draw_step(bool at_end) {
  if (!pictures_ || !pictures_->after_step(*run_, std::ssize(figures_.step_seconds), at_end))
    return false;
  if (!trace_.wanted()) run_->forget_times();
  return true;
}

std::vector<TierMemory> TrainingSession::memory() const {
  std::vector<TierMemory> tiers;
  const plan::Topology& topology = *run_->plan().program.topology;
  for (const plan::Tier tier : topology.all_tiers()) {
    tiers.push_back({.tier = topology[tier].name,
                     .most = run_->measured_peak(tier),
                     .limit = run_->plan().limits[tier]});
  }
  return tiers;
}

StepReport TrainingSession::tell(const StepResult& result, double seconds) {
  const std::int64_t tokens = options_.sequence * options_.micro_batch * options_.accumulate;
  figures_.losses.push_back(result.loss);
  figures_.step_seconds.push_back(seconds);
  figures_.tokens += tokens;
  recent_.push_back(seconds);
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  double recent = 0;
  for (const double s : recent_) recent += s;
  recent /= static_cast<double>(recent_.size());
  const StepReport report{
      .step = state_.step,
      .steps = options_.steps,
      .loss = result.loss,
      .norm = result.norm,
      .learning_rate = run_->learning_rate(state_.step),
      .tokens_per_second = static_cast<double>(tokens) / recent,
      .utilization = plan::measured_utilization(run_->plan(), recent),
      .seconds_left = recent * static_cast<double>(options_.steps - state_.step),
      .device_bytes = run_->measured_peak(plan::Tier::device),
      .memory = memory()};
  if (log_) log_->add(report, seconds);
  observer_.step(report);
  return report;
}

}  // namespace ebb::engine
