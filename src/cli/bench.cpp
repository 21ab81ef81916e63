#include "ebb/bench.h"

#include <fmt/format.h>

#include "cli/measuring.h"
#include "cli/verbs.h"

namespace ebb::cli {

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "bench", "Measure how fast this machine is, and what share of its ceiling that is");
  verb->require_subcommand(1);
  CLI::App* optimizer = verb->add_subcommand(
      "optimizer", "The optimizer's updates on the CPU: every rule and state format");
  auto options = std::make_shared<OptimizerBenchOptions>();
  OptimizerBenchOptions& o = *options;
  optimizer->add_option("--rule", o.rules, "Only these: adamw, adam, lion, sgd, adagrad");
  optimizer->add_option("--format", o.formats, "Only these: exact, bf16, int8");
  optimizer->add_option("--threads", o.threads,
                        "CPU threads, one number or several; 0 for all that may be used "
                        "(1 and all if not given)");
  optimizer->add_option("--parameters", o.parameters, "How many; 0 for far more than caches hold")
      ->capture_default_str();
  optimizer->add_option("--seconds", o.seconds, "To spend on each row of the table, or more")
      ->capture_default_str();
  auto json = std::make_shared<bool>(false);
  optimizer->add_flag("--json", *json, "Print one JSON object");
  optimizer->callback([options, json, &action] {
    action = [options, json] {
      const BenchResult result = [&] {
        const MeasuringProgress progress;
        return bench_optimizer(*options, [&](const BenchProgress& p) { progress(p); });
      }();
      fmt::print("{}", *json ? result.json + "\n" : result.text);
      return 0;
    };
  });
}

}  // namespace ebb::cli
