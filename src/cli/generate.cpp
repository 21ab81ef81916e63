#include "ebb/generate.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "cli/generation_flags.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace ebb::cli {
namespace {

// Optional values: generation_config.json decides what is not given, so there is no default to
// show.
void add_sampling(CLI::App& verb, GenerateOptions& o) {
  const std::string group =
      "Sampling (where not given: the model's generation_config.json, else temperature 0.8)";
  verb.add_option("--temperature", o.temperature, "0: always the likeliest token")->group(group);
  verb.add_option("--top-k", o.top_k, "Draw from the k likeliest tokens only; 0: from all")
      ->group(group);
  verb.add_option("--top-p", o.top_p,
                  "Draw from the likeliest tokens that together have this probability")
      ->group(group);
  add_seed(verb, o.seed, "Equal seeds give equal texts")->group(group);
}

int run(const GenerateOptions& options, bool json) {
  // Printed with the first piece: what was refused leaves nothing on the output. An answer stands
  // alone, a continuation follows its beginning.
  std::string unprinted = options.chat ? std::string() : options.prompt;
  const GenerateSummary summary = generate(options, [&](std::string_view piece) {
    if (json) return true;
    print_out(std::exchange(unprinted, {}));
    print_out(piece);
    return true;
  });
  // The prompt is still to be printed where no piece came.
  print_out((json ? summary.json : unprinted) + "\n");
  // Everything but the text goes to stderr: stdout can be piped.
  if (!summary.warning.empty()) fmt::print(stderr, "{}\n", summary.warning);
  fmt::print(stderr, "{}\n", summary.settings);
  fmt::print(stderr, "plan: {}\n", summary.plan);
  fmt::print(stderr, "{} tokens, {:.1f} tokens/s, prompt of {} in {}, device {} of {}\n",
             summary.tokens, summary.tokens_per_second, summary.prompt_tokens,
             format_seconds(summary.prompt_seconds), format_bytes(summary.device_peak),
             format_bytes(summary.device_limit));
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("generate", "Let a model continue a text, or answer");
  auto options = std::make_shared<GenerateOptions>();
  auto json = std::make_shared<bool>(false);
  GenerateOptions& o = *options;
  verb->add_option("--model", o.model,
                   "A model's folder or GGUF file, or a run's folder: its last checkpoint")
      ->required();
  verb->add_option("--tokenizer", o.tokenizer,
                   "A folder with tokenizer.json; without it the model's own, or bytes");
  verb->add_option("--prompt", o.prompt, "The text to continue");
  verb->add_flag("--chat", o.chat,
                 "The prompt is what a user says: put it through the model's chat template");
  verb->add_option("--system", o.system, "With --chat: instructions before the prompt");
  verb->add_option("--max-tokens", o.max_tokens, "Most tokens to generate")->capture_default_str();
  verb->add_flag("--json", *json, "Print one JSON object, with the ids of all tokens");
  add_sampling(*verb, o);
  add_word(*verb, "--dtype", o.dtype, "bf16, fp32, or auto: as stored");
  add_word(*verb, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one");
  verb->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  add_generation_placement(*verb, o);
  verb->add_option(
      "--trace", o.trace,
      "Write when the tasks of the last tokens ran, on which lane, for ui.perfetto.dev");
  verb->add_flag("!--no-verify", o.verify,
                 "Do not compare a checkpoint's files with its checksums before they are used");
  verb->callback(
      [options, json, &action] { action = [options, json] { return run(*options, *json); }; });
}

}  // namespace ebb::cli
