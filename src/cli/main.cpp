#include <csignal>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/verbs.h"
#include "cli/whole_numbers.h"
#include "ebb/error.h"
#include "ebb/version.h"

namespace {

// Told apart by scripts: 2 for work that does not fit the limits, 1 for everything else.
constexpr int kFailed = 1;
constexpr int kDoesNotFit = 2;

// "train, plan and probe"
std::string names_of(const std::vector<const CLI::App*>& verbs) {
  std::string names;
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    const char* before = i == 0 ? "" : i + 1 == verbs.size() ? " and " : ", ";
    names += before + verbs[i]->get_name();
  }
  return names;
}

// CLI11 takes a word that is no verb for a superfluous argument, and says only that: this says
// which verbs there are, at the depth that was reached.
std::string describe_misuse(const CLI::App* app, const CLI::Error& error) {
  std::string text = error.what();
  std::string path;
  const CLI::App* at = app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += at->get_name() + " ";
  }
  const std::vector<const CLI::App*> verbs =
      at->get_subcommands([](const CLI::App*) { return true; });
  if (const auto words = app->remaining(true); !verbs.empty() && !words.empty()) {
    text = fmt::format("'{}' is not a verb; the verbs {}are {}", words.front(),
                       path.empty() ? "" : "of " + path, names_of(verbs));
  }
  return fmt::format("ebb: {}\nRun 'ebb {}--help' to see what there is.\n", text, path);
}

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
  ebb::cli::add_probe(app, action);
  ebb::cli::add_bench(app, action);
  // Behind the last verb: it goes over all flags that there are.
  ebb::cli::check_whole_numbers(app);
  app.failure_message(describe_misuse);
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
