#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/misuse.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "cli/whole_numbers.h"
#include "ebb/error.h"
#include "ebb/version.h"

namespace {

// Told apart by scripts: 2 for work that does not fit the limits, 1 for everything else.
constexpr int kFailed = 1;
constexpr int kDoesNotFit = 2;

int run(int argc, char** argv) {
  CLI::App app{
      "Ebb trains and runs transformer language models that are bigger than the device they run "
      "on.\n"
      "Weights, gradients, optimizer states and activations are spread over device and host "
      "memory\n"
      "within limits that you set, and the numbers never depend on where anything lies.",
      "ebb"};
  app.set_version_flag("--version", std::string("ebb ") + ebb::kVersion);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  ebb train --model preset:small --data my_texts/ --out run --device-memory 80MiB\n"
      "  ebb plan --model preset:qwen2.5-1.5b --sequence 2048 --micro-batch 8 --device-memory "
      "16GiB\n"
      "  ebb generate --model run --prompt \"Once upon a time\"\n"
      "  ebb evaluate --model run --data held_out/ --sequence 2048\n"
      "Each verb explains itself: ebb train --help");
  // Set by the verb's callback while the line is parsed. Outlives the parsing, as callbacks refer
  // to it.
  ebb::cli::Action action;
  ebb::cli::add_train(app, action);
  ebb::cli::add_plan(app, action);
  ebb::cli::add_generate(app, action);
  ebb::cli::add_evaluate(app, action);
  ebb::cli::add_chat(app, action);
  ebb::cli::add_inspect(app, action);
  ebb::cli::add_quantize(app, action);
  ebb::cli::add_check(app, action);
  ebb::cli::add_tokenize(app, action);
  ebb::cli::add_report(app, action);
  ebb::cli::add_watch(app, action);
  ebb::cli::add_probe(app, action);
  ebb::cli::add_bench(app, action);
  // Behind the last verb: it goes over all flags that there are.
  ebb::cli::check_whole_numbers(app);
  app.failure_message(ebb::cli::describe_misuse);
  try {
    // A ConfigError that a flag's value causes passes through CLI11 and this, to main().
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Asking for help or the version comes here, too.
    return app.exit(error) == 0 ? 0 : kFailed;
  }
  // One verb is required, so there is an action.
  return action();
}

// Nobody may be left to read it: then the exit code says it.
void tell(const std::exception& error) {
  std::fputs("ebb: ", stderr);
  std::fputs(error.what(), stderr);
  std::fputs("\n", stderr);
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that went away and a file that may not grow are errors of the write, which are told,
  // and not the end of what is in memory.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run(argc, argv);
    ebb::cli::finish_output();
    return code;
  } catch (const ebb::OutOfBudget& error) {
    tell(error);
    return kDoesNotFit;
  } catch (const std::exception& error) {
    tell(error);
    return kFailed;
  }
}
