#include "ebb/probe.h"

#include "cli/measuring.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace ebb::cli {

void add_probe(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "probe", "Measure this machine once and keep the result: plans are made with it");
  auto options = std::make_shared<ProbeOptions>();
  add_word(*verb, "--device", options->device, "cpu, cuda, or auto: a GPU where there is one");
  verb->add_option("--threads", options->threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  verb->add_option("--seconds", options->seconds, "To spend, about; fewer are less exact")
      ->capture_default_str();
  add_disks(*verb, options->disk,
            "A folder on a drive to measure, too, and how much to write there, as "
            "PATH:BYTES (8GiB): more than the drive's own cache holds");
  verb->add_option("--out", options->out,
                   "File for the profile; where train and plan look for it if not given");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print the profile as JSON");
  verb->callback([options, json, &action] {
    action = [options, json] {
      // The progress line ends with this scope, before the result is printed.
      const ProbeResult result = [&] {
        const MeasuringProgress progress;
        return probe(*options, [&](const BenchProgress& p) { progress(p); });
      }();
      print_out(*json ? result.json : result.text);
      return 0;
    };
  });
}

}  // namespace ebb::cli
