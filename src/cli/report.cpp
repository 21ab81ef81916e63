#include "ebb/report.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace ebb::cli {

void add_report(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "report",
      "Draw a run, or several that are compared, as one HTML page: loss, speed, memory over a "
      "step, the lanes of a step, settings");
  auto runs = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>();
  verb->add_option("run", *runs, "Folders of runs, as 'ebb train --out' made them")->required();
  verb->add_option("--out", *out, "The page's file; one that is there is replaced")->required();
  verb->callback([runs, out, &action] {
    action = [runs, out] {
      write_report(*runs, *out);
      print_out("Wrote " + *out + ": open it in a browser\n");
      return 0;
    };
  });
}

}  // namespace ebb::cli
