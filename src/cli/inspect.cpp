#include <fmt/format.h>

#include "cli/verbs.h"
#include "ebb/inspect.h"

namespace ebb::cli {

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("inspect", "Show what is in a model or a checkpoint");
  auto path = std::make_shared<std::string>();
  verb->add_option(
          "path", *path,
          "A model's folder, a run's folder, a checkpoint, a safetensors file or preset:NAME")
      ->required();
  verb->callback([path, &action] {
    action = [path] {
      const Inspection found = inspect(*path);
      fmt::print("{}", found.text);
      return found.sound ? 0 : 1;
    };
  });
}

}  // namespace ebb::cli
