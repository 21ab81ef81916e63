// Weights stay on the device, whole blocks of them.
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Weights final : public Rule {
 public:
  void start(Step& step) override {
    for (int b = 0; b < step.blocks(); ++b) {
      const Block& block = step.block(b);
      step.weights[Step::at(b)] =
          step.persistent(Tier::device, Purpose::weights, block.weights.bytes(block.parameters),
                          block.name + " weights");
    }
    step.program.persistent.weights = step.weights;
  }
};

}  // namespace

std::unique_ptr<Rule> weights_rule() { return std::make_unique<Weights>(); }

}  // namespace ebb::plan
