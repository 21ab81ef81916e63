#include "ebb/bench.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "cli/verbs.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

// Beside the result, which scripts read: one line that renews itself on a terminal, plain lines in
// a pipe.
void show(const BenchProgress& p, bool terminal) {
  fmt::print(stderr, "{}{:.0f}%  {}  {} left{}", terminal ? "\r\033[K" : "", 100 * p.done, p.now,
             format_seconds(p.seconds_left), terminal ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace

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
      const bool terminal = ::isatty(STDERR_FILENO) != 0;
      const BenchResult result =
          bench_optimizer(*options, [&](const BenchProgress& p) { show(p, terminal); });
      if (terminal) fmt::print(stderr, "\r\033[K");
      fmt::print("{}", *json ? result.json + "\n" : result.text);
      return 0;
    };
  });
}

}  // namespace ebb::cli
