// The rules of a training step. What is at the same place of a step comes in this order.
#include "plan/rules/step.h"

namespace ebb::plan {

std::unique_ptr<Rule> weights_rule();
std::unique_ptr<Rule> inputs_rule();
std::unique_ptr<Rule> recompute_rule();
std::unique_ptr<Rule> grouped_gradients_rule();
std::unique_ptr<Rule> norm_rule();
std::unique_ptr<Rule> tied_sums_rule();
std::unique_ptr<Rule> gradients_rule();
std::unique_ptr<Rule> states_rule();
std::unique_ptr<Rule> gathered_weights_rule();

std::span<std::unique_ptr<Rule> (*const)()> training_rules() {
  static constexpr std::unique_ptr<Rule> (*kRules[])() = {
      weights_rule,   inputs_rule,    recompute_rule, grouped_gradients_rule, norm_rule,
      tied_sums_rule, gradients_rule, states_rule,    gathered_weights_rule,
  };
  return kRules;
}

}  // namespace ebb::plan
