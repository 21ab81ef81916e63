// Blocks whose activations were dropped run forward again, right before their backward.
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Recompute final : public Rule {
 public:
  void before_backward(Step& step, int block) override {
    const int layer = step.layer_of(block);
    if (layer < 0 || layer >= step.choices.recompute_blocks) return;
    run_layer(step, Op::recompute, block, -1);
  }
};

}  // namespace

std::unique_ptr<Rule> recompute_rule() { return std::make_unique<Recompute>(); }

}  // namespace ebb::plan
