#include "ebb/evaluate.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "api/planned_machine.h"
#include "base/json.h"
#include "base/seconds_since.h"
#include "ebb/error.h"
#include "engine/data_notes.h"
#include "engine/evaluation_data.h"
#include "engine/evaluation_plan.h"
#include "engine/evaluation_run.h"
#include "engine/fill_progress.h"
#include "engine/gemm_cache.h"
#include "engine/machine_profile.h"
#include "engine/open_model.h"
#include "engine/settings.h"
#include "engine/trace_file.h"
#include "engine/workload.h"
#include "io/posix_file_system.h"
#include "io/stoppable_file_system.h"

namespace ebb {
namespace {

using Clock = std::chrono::steady_clock;
using plan::Tier;

// The first of the two limits that is reached.
std::int64_t most_batches(const EvaluateOptions& o) {
  const auto check = [](const std::optional<std::int64_t>& value, const char* flag) {
    if (value.value_or(1) >= 1) return;
    throw ConfigError(
        fmt::format("{} {}: expected 1 or more; leave it out for all of the data", flag, *value));
  };
  check(o.batches, "--batches");
  check(o.max_tokens, "--max-tokens");
  constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  const std::int64_t each = o.sequence * o.micro_batch;
  const std::int64_t tokens = o.max_tokens ? 1 + (*o.max_tokens - 1) / each : all;
  return std::min(o.batches.value_or(all), tokens);
}

DType dtype_of(const EvaluateOptions& options, io::FileSystem& files,
               const files::ModelSource& source) {
  return options.dtype == FloatType::automatic ? files::stored_dtype(files, source)
                                               : engine::dtype_of(options.dtype, DType::bf16);
}

// An evaluation from the first file to the summary. Members are made in the order in which they
// need each other; what can be refused without reading a model is refused first.
class EvaluationSession {
 public:
  EvaluationSession(const EvaluateOptions& options, EvaluateObserver& observer,
                    std::stop_token stop)
      : options_(options),
        training_(engine::as_training(options)),
        observer_(observer),
        stop_(std::move(stop)),
        files_(disk_, stop_),
        trace_(disk_, options.trace),
        runtime_(options.device, engine::check_threads(options.threads)),
        limits_(
            engine::limits_within(runtime_.memory(), options.device_memory, options.host_memory)),
        model_(
            engine::open_model(files_, options.model, options.tokenizer, limits_[Tier::host], 1)),
        settings_(settings()),
        data_(disk_, training_, model_->tokenizer, source().config.vocabulary,
              most_batches(options), note()) {
    settings_.extras.push_back({Tier::host, "data", data_.memory_bytes()});
  }

  EvaluateSummary run() {
    for (const std::string& text : {source().head_note, engine::note_on_length(settings_)}) {
      if (!text.empty()) observer_.note(text);
    }
    observer_.note(engine::load_profile(disk_, runtime_, options_.profile));
    if (options_.verify) files::verify_model(files_, source());
    engine::choose_gemms(
        disk_, runtime_,
        engine::evaluation_products(engine::make_decoder(settings_), runtime_.device_model()),
        settings_.limits[Tier::device], note());
    io::check_stop(stop_);
    plan::Plan plan = engine::plan_evaluation(runtime_, settings_);
    observer_.note(plan::explain_evaluation(plan));
    run_ = std::make_unique<engine::EvaluationRun>(runtime_, settings_, std::move(plan));
    load();
    start_ = Clock::now();
    evaluate_all();
    return conclude();
  }

 private:
  const files::ModelSource& source() const { return model_->source; }

  // What takes long tells how far it is, and can be stopped there.
  Note note() {
    return [this](const std::string& text) {
      io::check_stop(stop_);
      observer_.note(text);
    };
  }

  engine::TrainingSettings settings() {
    engine::TrainingSettings settings =
        engine::evaluation_settings(options_, source().config, dtype_of(options_, files_, source()),
                                    runtime_.memory(), &disk_, note());
    settings.extras.push_back({Tier::host, "tokenizer", model_->tokenizer.memory_bytes()});
    if (const Bytes rendering = model_->rendering_bytes(); rendering > 0) {
      settings.extras.push_back({Tier::host, "chat rendering", rendering});
    }
    return settings;
  }

  void load() {
    if (!source().has_weights()) {
      observer_.note(
          fmt::format("The weights of {} are random, as nobody has trained them", source().name));
    }
    engine::FillProgress progress(run_->parameters(), note(),
                                  source().has_weights() ? "Loading weights" : "Making weights");
    run_->load(files_, source(), [&](std::size_t count) {
      io::check_stop(stop_);
      progress.add(count);
    });
  }

  // A batch is made while those before it are under way.
  void evaluate_all() {
    while (!stop_.stop_requested()) {
      const std::optional<text::Batch> batch = data_.next();
      if (!batch) break;
      run_->add(*batch);
      shares_.push_back(data_.share());
      report();
    }
    stopped_ = stop_.stop_requested();
    run_->finish();
    if (run_->batches_done() == 0 && stopped_) io::check_stop(stop_);
    report();
  }

  // Of batches that ended since the last one.
  void report() {
    const std::int64_t done = run_->batches_done();
    if (done == reported_) return;
    while (reported_ < done) {
      share_ = shares_.front();
      shares_.pop_front();
      ++reported_;
    }
    const double seconds = seconds_since(start_);
    observer_.batch({.batches = done,
                     .loss_tokens = run_->total().loss_tokens,
                     .loss = mean(),
                     .tokens_per_second = static_cast<double>(tokens()) / seconds,
                     .share = share_,
                     .seconds_left = seconds * (1 - share_) / share_});
  }

  // Up to the first target that carries loss there is none.
  double mean() const {
    const engine::Evaluation& total = run_->total();
    return total.loss_tokens == 0 ? 0 : total.loss_sum / static_cast<double>(total.loss_tokens);
  }
  std::int64_t tokens() const { return run_->batches_done() * settings_.shape.tokens(); }

  EvaluateSummary conclude() {
    const text::LeftOut left_out = data_.left_out();
    for (const std::string& text : engine::all_left_out(left_out)) observer_.note(text);
    if (left_out.cut_examples > 0) {
      observer_.note(
          fmt::format("{} examples were longer than --sequence {} and lost {} tokens at their ends",
                      left_out.cut_examples, options_.sequence, left_out.cut_tokens));
    }
    const engine::Evaluation& total = run_->total();
    if (total.loss_tokens == 0) {
      throw ConfigError(fmt::format(
          "none of the tokens of {} batches counts for the loss; are the prompts longer than "
          "--sequence {}? Give a larger --sequence, other data, or --loss all",
          run_->batches_done(), options_.sequence));
    }
    if (trace_.wanted()) trace_.write(run_->trace());
    EvaluateSummary summary{.loss = mean(),
                            .perplexity = std::exp(mean()),
                            .bits_per_byte = {},
                            .loss_tokens = total.loss_tokens,
                            .tokens = tokens(),
                            .batches = run_->batches_done(),
                            .whole = !stopped_ && data_.whole(),
                            .stopped = stopped_,
                            .seconds = seconds_since(start_),
                            .device_peak = run_->measured_peak(Tier::device),
                            .device_limit = settings_.limits[Tier::device],
                            .host_peak = run_->measured_peak(Tier::host),
                            .host_limit = settings_.limits[Tier::host],
                            .json = {}};
    if (const auto bytes = data_.target_bytes(); bytes && *bytes > 0) {
      summary.bits_per_byte = total.loss_sum / std::log(2.0) / static_cast<double>(*bytes);
    }
    summary.tokens_per_second = static_cast<double>(summary.tokens) / summary.seconds;
    summary.json = to_json(summary, left_out);
    return summary;
  }

  std::string to_json(const EvaluateSummary& s, const text::LeftOut& left_out) const {
    const plan::Plan& plan = run_->plan();
    Json tiers = Json::object();
    for (const Tier tier : plan.workload.topology->all_tiers()) {
      tiers[(*plan.workload.topology)[tier].name] = {{"limit", plan.limits[tier]},
                                                     {"predicted_peak", plan.peak(tier)},
                                                     {"peak", run_->measured_peak(tier)}};
    }
    const Json json{{"model", source().name},
                    {"random_weights", !source().has_weights()},
                    {"data", options_.data},
                    {"dtype", settings_.dtype == DType::f32 ? "fp32" : "bf16"},
                    {"sequence", options_.sequence},
                    {"micro_batch", options_.micro_batch},
                    {"loss", s.loss},
                    {"perplexity", s.perplexity},
                    {"bits_per_byte", s.bits_per_byte ? Json(*s.bits_per_byte) : Json()},
                    {"loss_tokens", s.loss_tokens},
                    {"tokens", s.tokens},
                    {"batches", s.batches},
                    {"whole", s.whole},
                    {"stopped", s.stopped},
                    {"bad_items", left_out.bad_items},
                    {"cut_examples", left_out.cut_examples},
                    {"cut_tokens", left_out.cut_tokens},
                    {"seconds", s.seconds},
                    {"tokens_per_second", s.tokens_per_second},
                    {"predicted_tokens_per_second", plan.tokens_per_second()},
                    {"flags", plan::evaluation_flags(plan.choices)},
                    {"tiers", std::move(tiers)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  const EvaluateOptions& options_;
  const TrainOptions training_;
  EvaluateObserver& observer_;
  std::stop_token stop_;
  io::PosixFileSystem disk_;
  io::StoppableFileSystem files_;  // for what may be stopped: nothing is written to it
  engine::TraceFile trace_;
  engine::Runtime runtime_;
  plan::Limits limits_;
  std::shared_ptr<const engine::OpenModel> model_;
  engine::TrainingSettings settings_;
  engine::EvaluationData data_;
  std::unique_ptr<engine::EvaluationRun> run_;
  Clock::time_point start_{};
  std::deque<double> shares_;  // of the work, with each batch that is not reported yet
  double share_ = 0;
  std::int64_t reported_ = 0;
  bool stopped_ = false;
};

}  // namespace

EvaluateSummary evaluate(const EvaluateOptions& options, EvaluateObserver& observer,
                         std::stop_token stop) {
  return EvaluationSession(options, observer, std::move(stop)).run();
}

std::string explain_evaluation(const EvaluateOptions& options, const std::string& machine) {
  io::PosixFileSystem files;
  // First, as it throws where no file can be made there: before anything is planned.
  engine::TraceFile trace(files, options.trace);
  const files::ModelSource source = files::find_model(files, options.model);
  const api::PlannedMachine on = api::planned_machine(
      files, {.device = options.device, .threads = options.threads, .profile = options.profile},
      machine);
  engine::TrainingSettings settings =
      engine::evaluation_settings(options, source.config, dtype_of(options, files, source),
                                  on.memory, on.here != nullptr ? &files : nullptr);
  const files::ModelTokenizer tokenizer =
      files::find_tokenizer(files, source, options.tokenizer, settings.limits[Tier::host]);
  settings.extras.push_back({Tier::host, "tokenizer", tokenizer.memory_bytes()});
  kernels::CountingOps ops(on.needs());
  const plan::Plan plan = engine::plan_evaluation(ops, on.profile, settings);
  if (trace.wanted()) trace.write(plan::predicted_evaluation(plan));
  const std::string note = engine::note_on_length(settings);
  return fmt::format("{}{}{}{}", note, note.empty() ? "" : "\n", plan::explain_evaluation(plan),
                     on.explain());
}

}  // namespace ebb
