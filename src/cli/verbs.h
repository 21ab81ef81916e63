// The verbs of the command line. Each adds its flags to the application when the program starts and
// sets `action` when the user gave it: the action runs after parsing, so that nothing is done for a
// command that is refused, and returns the exit code. What it throws, main() tells.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace ebb::cli {

// Owns the options that its flags filled.
using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_evaluate(CLI::App& app, Action& action);
// 'evaluate' among the verbs of plan.
CLI::App* add_plan_evaluate(CLI::App& plan, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_quantize(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_watch(CLI::App& app, Action& action);
void add_probe(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);

}  // namespace ebb::cli
