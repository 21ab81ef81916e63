// The verbs of the command line. Each adds itself to the application; what it does is run when the
// user gave it, and returns the exit code.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace ebb::cli {

using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_probe(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);

}  // namespace ebb::cli
