// Blocks whose activations were dropped run forward again, right before their backward.
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Recompute final : public Rule {
 public:
  void before_backward(Step& step, int block) override {
    const int layer = block - 1;
    if (layer < 0 || layer >= step.layers() || layer >= step.choices.recompute_blocks) return;
    step.saved[Step::at(layer)] = run_block(step, Op::recompute, layer, -1);
  }
};

}  // namespace

std::unique_ptr<Rule> recompute_rule() { return std::make_unique<Recompute>(); }

}  // namespace ebb::plan
