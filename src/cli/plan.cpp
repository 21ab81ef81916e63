#include "cli/config_file.h"
#include "cli/generation_flags.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "ebb/generate.h"
#include "ebb/report.h"

namespace ebb::cli {
namespace {

CLI::App* add_plan_generate(CLI::App& plan, Action& action) {
  CLI::App* verb = plan.add_subcommand(
      "generate", "Show where every byte would go and what a prompt and a token would take");
  auto options = std::make_shared<GenerateOptions>();
  auto prompt_tokens = std::make_shared<std::int64_t>(512);
  GenerateOptions& o = *options;
  verb->add_option("--model", o.model,
                   "A model's folder or GGUF file, a run's folder, or preset:NAME")
      ->required();
  verb->add_option("--tokenizer", o.tokenizer,
                   "A folder with tokenizer.json; without it the model's own, or bytes");
  verb->add_option("--prompt-tokens", *prompt_tokens, "Tokens of the prompt")
      ->capture_default_str();
  verb->add_option("--max-tokens", o.max_tokens,
                   "Most tokens to generate; where not given 200, or what fits");
  add_sequences(*verb, o);
  verb->add_flag("--chat", o.chat, "Count what the model's chat template may take");
  add_word(*verb, "--dtype", o.dtype, "bf16, fp32, or auto: as stored");
  add_word(*verb, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one");
  verb->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  add_generation_placement(*verb, o);
  verb->add_option("--trace", o.trace, "Write the predicted lanes, for ui.perfetto.dev");
  const std::shared_ptr<std::string> machine = add_machine(*verb);
  const ConfigFlag config(*verb, "generate");
  verb->callback([options, prompt_tokens, machine, config, &action] {
    config.apply();
    config.check_required();
    action = [options, prompt_tokens, machine] {
      print_out(explain_generation(*options, *prompt_tokens, *machine));
      return 0;
    };
  });
  return verb;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "plan",
      "Show where every byte would go and what a step would cost, without training; "
      "'plan generate' does so for a prompt and a token, 'plan evaluate' for a batch to evaluate");
  auto options = std::make_shared<TrainOptions>();
  add_train_flags(*verb, *options);
  // Taken so that a train command can be planned by changing the verb alone.
  verb->add_option("--data", options->data, "Not needed for a plan")->group("");
  verb->add_option("--out", options->out, "Not needed for a plan")->group("");
  const std::shared_ptr<std::string> machine = add_machine(*verb);
  auto report = std::make_shared<std::string>();
  verb->add_option("--report", *report,
                   "Draw the plan as an HTML page: memory over a step, lanes, the plan in words");
  const CLI::App* generate = add_plan_generate(*verb, action);
  const CLI::App* evaluate = add_plan_evaluate(*verb, action);
  // --model belongs to the verb and not to 'plan generate', which has its own: so the callback, and
  // not CLI11, requires it.
  const ConfigFlag config(*verb, "train");
  verb->callback([options, machine, report, generate, evaluate, config, &action] {
    if (generate->parsed() || evaluate->parsed()) return;
    config.apply();
    config.check_required();
    action = [options, machine, report] {
      const Plan plan = make_plan(*options, *machine);
      print_out(plan.explanation);
      if (report->empty()) return 0;
      write_plan_report(plan, options->model, *report);
      print_out("Wrote " + *report + ": open it in a browser\n");
      return 0;
    };
  });
}

}  // namespace ebb::cli
