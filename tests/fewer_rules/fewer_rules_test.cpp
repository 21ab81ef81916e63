// A build whose list of rules lacks one: here the rule that lets inputs of blocks wait in host
// memory. This list takes the place of the library's own, so that the rule's file is not even
// linked; the rest plans and trains as before.
#include <gtest/gtest.h>

#include "engine/small_runs.h"
#include "plan/rules/step.h"

namespace ebb::plan {

std::unique_ptr<Rule> weights_rule();
std::unique_ptr<Rule> recompute_rule();
std::unique_ptr<Rule> norm_rule();
std::unique_ptr<Rule> tied_sums_rule();
std::unique_ptr<Rule> gradients_rule();
std::unique_ptr<Rule> states_rule();

std::span<std::unique_ptr<Rule> (*const)()> training_rules() {
  static constexpr std::unique_ptr<Rule> (*kRules[])() = {
      weights_rule, recompute_rule, norm_rule, tied_sums_rule, gradients_rule, states_rule};
  return kRules;
}

}  // namespace ebb::plan

namespace ebb::engine {
namespace {

TEST(FewerRules, PlansAndTrainsWhatIsLeft) {
  const Outcome expected = train_small(small_settings(), 2, 4);
  for (const double host : {0.0, 0.5, 1.0}) {
    for (const int accumulate : {1, 3}) {
      TrainingSettings s = small_settings();
      s.accumulate = accumulate;
      const Outcome resident = train_small(s, 2, 4);
      s.fixed = {.site = plan::Site::stream,
                 .offload_fraction = 1.0,
                 .host_fraction = host,
                 .recompute_blocks = 1,
                 .host_inputs = 2,  // of which nobody knows any more
                 .chunk_parameters = 8192};
      const Outcome found = train_small(s, 2, 4);
      EXPECT_EQ(found.weights, resident.weights) << host;
      EXPECT_EQ(found.predicted_device, found.measured_device) << host;
      if (accumulate == 1) {
        EXPECT_EQ(found.weights, expected.weights) << host;
      }
    }
  }
}

TEST(FewerRules, HaveNoTransferOfTheRuleThatIsGone) {
  TrainingSettings s = small_settings();
  s.fixed.host_inputs = 2;
  Runtime runtime(test_device(), 2);
  const plan::Plan plan = plan_training(runtime, s);
  for (const plan::Task& task : plan.program.tasks) {
    if (!task.is_transfer()) continue;
    EXPECT_NE(plan.program[task.find(plan::Role::destination)->object].purpose,
              plan::Purpose::activations);
  }
}

}  // namespace
}  // namespace ebb::engine
