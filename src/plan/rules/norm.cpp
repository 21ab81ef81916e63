// The global norm of the step's gradients and what follows from it: sums of squares and losses come
// down, those of other ranks come, too, the CPU decides, and the scale goes up.
#include <algorithm>

#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class NormRule final : public Rule {
 public:
  void start(Step& step) override {
    // Where gradients go by groups their squares are the CPU's, and losses alone come down.
    const Bytes bytes = report_bytes(step);
    step.report = step.persistent(Tier::device, Purpose::workspace, bytes, "report");
    step.scale[Tier::device] = step.persistent(Tier::device, Purpose::workspace, kScale, "scale");
    came_down_ = step.persistent(Tier::host, Purpose::workspace, bytes, "report");
    step.squares =
        step.persistent(Tier::host, Purpose::workspace, step.work.report_bytes(), "squares");
    step.scale[Tier::host] = step.persistent(Tier::host, Purpose::workspace, kScale, "scale");
    step.program.persistent.report = came_down_;
    step.on_cpu(Op::reset_scale, Draw::nothing, {writes(Role::scale, step.scale[Tier::host])});
  }

  void finish(Step& step) override {
    const bool grouped = step.work.ranks.grouped();
    const bool has_losses = step.work.micro_batches > 0;
    if (has_losses) {
      step.transfer({step.report, {0, report_bytes(step)}}, {came_down_}, Traffic::express);
    }
    const Use losses = reads(Role::report, has_losses ? came_down_ : -1);
    if (step.work.ranks.count > 1) {
      Task& gather =
          step.on_network(Op::gather_report, -1, {losses, writes(Role::squares, step.squares)});
      gather.piece = -1;
      gather.moved = (step.work.ranks.count - 1) * step.work.report_bytes();
    }
    Task& norm = step.on_cpu(
        Op::norm, Draw::update,
        {grouped ? losses : writes(Role::report, came_down_),
         grouped ? writes(Role::squares, step.squares) : reads(Role::squares, step.squares),
         writes(Role::scale, step.scale[Tier::host])});
    norm.moved = 2 * step.work.report_bytes();
    step.transfer({step.scale[Tier::host], {0, kScale}}, {step.scale[Tier::device]},
                  Traffic::express);
  }

 private:
  static Bytes report_bytes(const Step& step) {
    return step.work.ranks.grouped() ? 8 * std::max<Bytes>(1, step.work.micro_batches)
                                     : step.work.report_bytes();
  }

  static constexpr Bytes kScale = 8;
  ObjectId came_down_ = -1;
};

}  // namespace

std::unique_ptr<Rule> norm_rule() { return std::make_unique<NormRule>(); }

}  // namespace ebb::plan
