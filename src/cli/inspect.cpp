#include "ebb/inspect.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace ebb::cli {

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("inspect", "Show what a file or folder is, and what Ebb can do with it");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  verb->add_option(
          "path", *path,
          "A model's folder or one of its files, a GGUF file, a run, a checkpoint, data to train "
          "on, or preset:NAME")
      ->required();
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([path, json, &action] {
    action = [path, json] {
      const Inspection found = inspect(*path);
      print_out(*json ? found.json + "\n" : found.text);
      // So that scripts can check a file with it.
      return found.sound ? 0 : 1;
    };
  });
}

}  // namespace ebb::cli
