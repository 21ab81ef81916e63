// Blocks whose activations were dropped run forward again, right before their backward.
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Recompute final : public Rule {
 public:
  void before_backward(Step& step, int block) override {
    if (step.recomputes(block)) run_layer(step, Op::recompute, block, -1);
  }
};

}  // namespace

std::unique_ptr<Rule> recompute_rule() { return std::make_unique<Recompute>(); }

}  // namespace ebb::plan
