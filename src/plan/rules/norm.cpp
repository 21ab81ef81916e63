// The global norm of the step's gradients and what follows from it: sums of squares and losses come
// down, the CPU decides, and the scale goes up.
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class NormRule final : public Rule {
 public:
  void start(Step& step) override {
    const Bytes bytes = step.work.report_bytes();
    step.report = step.persistent(Tier::device, Purpose::workspace, bytes, "report");
    step.scale[Tier::device] = step.persistent(Tier::device, Purpose::workspace, kScale, "scale");
    came_down_ = step.persistent(Tier::host, Purpose::workspace, bytes, "report");
    step.squares = step.persistent(Tier::host, Purpose::workspace, bytes, "squares");
    step.scale[Tier::host] = step.persistent(Tier::host, Purpose::workspace, kScale, "scale");
    step.program.persistent.report = came_down_;
    step.on_cpu(Op::reset_scale, Draw::nothing, {writes(Role::scale, step.scale[Tier::host])});
  }

  void finish(Step& step) override {
    const Bytes bytes = step.work.report_bytes();
    step.transfer({step.report, {0, bytes}}, {came_down_}, Traffic::express);
    Task& norm = step.on_cpu(Op::norm, Draw::update,
                             {writes(Role::report, came_down_), reads(Role::squares, step.squares),
                              writes(Role::scale, step.scale[Tier::host])});
    norm.moved = 2 * bytes;
    step.transfer({step.scale[Tier::host], {0, kScale}}, {step.scale[Tier::device]},
                  Traffic::express);
  }

 private:
  static constexpr Bytes kScale = 8;
  ObjectId came_down_ = -1;
};

}  // namespace

std::unique_ptr<Rule> norm_rule() { return std::make_unique<NormRule>(); }

}  // namespace ebb::plan
