#include "cli/output.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"

namespace ebb::cli {

void add_plan(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "plan", "Show where every byte would go and what a step would cost, without training");
  const std::shared_ptr<TrainOptions> options = add_train_flags(*verb);
  // Taken so that a train command can be planned by changing the verb alone.
  verb->add_option("--data", options->data, "Not needed for a plan")->group("");
  verb->add_option("--out", options->out, "Not needed for a plan")->group("");
  auto machine = std::make_shared<std::string>();
  verb->add_option("--machine", *machine,
                   "Plan for a machine that need not be here: rtx-3090, rtx-4090, rtx-5090, "
                   "a100-80gb, h100, h200, cpu-server, or the file of a profile (ebb probe)")
      ->group("Run");
  verb->callback([options, machine, &action] {
    action = [options, machine] {
      print_out(explain_plan(*options, *machine));
      return 0;
    };
  });
}

}  // namespace ebb::cli
