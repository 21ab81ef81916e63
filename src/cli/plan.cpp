#include <fmt/format.h>

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
  verb->callback([options, &action] {
    action = [options] {
      fmt::print("{}", explain_plan(*options));
      return 0;
    };
  });
}

}  // namespace ebb::cli
