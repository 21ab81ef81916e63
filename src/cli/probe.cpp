#include "ebb/probe.h"

#include <fmt/format.h>

#include "cli/verbs.h"

namespace ebb::cli {

void add_probe(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("probe", "Show what this machine is");
  auto device = std::make_shared<std::string>("auto");
  verb->add_option("--device", *device, "cpu, cuda, or auto: a GPU where there is one")
      ->capture_default_str();
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print the speeds that plans are made with, as JSON");
  verb->callback([device, json, &action] {
    action = [device, json] {
      fmt::print("{}", *json ? probe_json(*device) : probe(*device));
      return 0;
    };
  });
}

}  // namespace ebb::cli
