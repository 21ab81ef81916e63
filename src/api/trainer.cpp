#include "ebb/trainer.h"

#include "api/described_plan.h"
#include "api/opened_model.h"
#include "dist/launch.h"
#include "engine/disk_tier.h"
#include "engine/training_session.h"
#include "plan/explain.h"

namespace ebb {
namespace {

// Stands in where the caller gave no observer.
class SilentObserver final : public TrainObserver {
 public:
  void note(const std::string&) override {}
  void step(const StepReport&) override {}
};

// The open model decides, whatever the options say: its checksums are compared as it was opened.
TrainOptions options_for(const Model& model, TrainOptions options) {
  options.model = model.name();
  options.verify = api::opened(model).options.verify;
  return options;
}

}  // namespace

// At one address for as long as the trainer lives: the session refers to `silent`, which is
// therefore declared before it.
struct Trainer::Run {
  Run(const TrainOptions& options_, std::shared_ptr<const engine::OpenModel> model,
      TrainObserver* observer, std::stop_token stop)
      : options(options_),
        session(options_, std::move(model), observer != nullptr ? *observer : silent,
                std::move(stop)) {}

  SilentObserver silent;
  TrainOptions options;
  engine::TrainingSession session;
};

Trainer::Trainer(const TrainOptions& options, TrainObserver* observer, std::stop_token stop)
    : run_(std::make_unique<Run>(options, nullptr, observer, std::move(stop))) {}

Trainer::Trainer(const Model& model, const TrainOptions& options, TrainObserver* observer,
                 std::stop_token stop)
    : run_(std::make_unique<Run>(options_for(model, options), api::opened(model).model, observer,
                                 std::move(stop))) {}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

// Without alternatives: planning them would take the time of many plans.
Plan Trainer::plan() {
  const plan::Plan& plan = run_->session.plan();
  const TrainOptions& o = run_->options;
  return api::describe(plan,
                       plan::explain(plan) + engine::explain_disk(plan, o.steps, o.disk_endurance));
}

TrainSummary Trainer::run() {
  // The reports went to the observer.
  while (run_->session.step()) {
  }
  return run_->session.finish();
}

std::optional<StepReport> Trainer::step() { return run_->session.step(); }

std::optional<double> Trainer::evaluate() { return run_->session.validate(); }

std::string Trainer::save() { return run_->session.save(); }

TrainSummary Trainer::finish() { return run_->session.finish(); }

int launched_rank() { return dist::find_launch(dist::process_environment()).rank; }

TrainSummary train(const TrainOptions& options, TrainObserver& observer, std::stop_token stop) {
  return Trainer(options, &observer, std::move(stop)).run();
}

}  // namespace ebb
