#include "ebb/generate.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "cli/config_file.h"
#include "cli/generation_flags.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/sampling_flags.h"
#include "cli/stop_on_interrupt.h"
#include "cli/verbs.h"
#include "ebb/error.h"

namespace ebb::cli {
namespace {

struct Request {
  GenerateOptions options;
  std::string prompt_file;  // "-": the standard input; empty: options.prompt
  std::string prompts;      // a file of them
  bool json = false;
};

// Everything but the text goes to stderr: stdout can be piped.
void tell(const GenerateSummary& summary) {
  for (const std::string& line : {summary.warning, summary.note, summary.settings}) {
    if (!line.empty()) fmt::print(stderr, "{}\n", line);
  }
  fmt::print(stderr, "plan: {}\n", summary.plan);
  fmt::print(stderr, "{} tokens, {:.1f} tokens/s, prompt of {} in {}, device {} of {}\n",
             summary.tokens, summary.tokens_per_second, summary.prompt_tokens,
             format_seconds(summary.prompt_seconds), format_bytes(summary.device_peak),
             format_bytes(summary.device_limit));
}

void run_one(const Request& request, const std::stop_token& stop) {
  const GenerateOptions& options = request.options;
  // Printed with the first piece: what was refused leaves nothing on the output. An answer stands
  // alone, a continuation follows its beginning.
  std::string unprinted = options.chat ? std::string() : options.prompt;
  const auto start = std::chrono::steady_clock::now();
  double first = 0;  // seconds until the first piece; 0 where none came
  const auto print = [&](std::string_view piece) {
    if (first == 0) {
      first = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    if (request.json) return true;
    print_out(std::exchange(unprinted, {}));
    print_out(piece);
    return true;
  };
  const GenerateSummary summary = generate(options, print, stop);
  // The prompt is still to be printed where no piece came.
  print_out((request.json ? summary.json : unprinted) + "\n");
  tell(summary);
  if (first > 0) {
    fmt::print(stderr, "First token after {}: loading {}, prompt {}\n", format_seconds(first),
               format_seconds(first - summary.prompt_seconds),
               format_seconds(summary.prompt_seconds));
  }
}

std::vector<Prompt> prompts_of(const Request& request) {
  const GenerateOptions& options = request.options;
  std::vector<Prompt> prompts = read_prompts(request.prompts);
  for (Prompt& prompt : prompts) {
    if (!options.chat || !prompt.messages.empty()) continue;
    if (!options.system.empty()) prompt.messages.push_back({"system", options.system});
    prompt.messages.push_back({"user", std::exchange(prompt.text, {})});
  }
  return prompts;
}

void run_each(const GenerateOptions& options, const std::vector<Prompt>& prompts,
              const std::stop_token& stop) {
  std::int64_t tokens = 0;
  std::size_t texts = 0;
  GenerateSummary last;
  generate_each(
      options, prompts,
      [&](const GenerateSummary& summary) {
        print_out(summary.json + "\n");
        if (!summary.note.empty()) fmt::print(stderr, "Prompt {}: {}\n", texts + 1, summary.note);
        tokens += summary.tokens;
        ++texts;
        last = summary;
        return true;
      },
      stop);
  if (!last.warning.empty()) fmt::print(stderr, "{}\n", last.warning);
  if (texts > 0) fmt::print(stderr, "{}\n", last.settings);
  fmt::print(stderr, "{} of {} texts, {} tokens\n", texts, prompts.size(), tokens);
}

int run(Request& request) {
  GenerateOptions& options = request.options;
  if (options.log_probs && !request.json && request.prompts.empty()) {
    throw ConfigError("--log-probs: they are part of the JSON; add --json");
  }
  if (options.sequences != 1 && request.prompts.empty()) {
    throw ConfigError("--sequences: it is for several prompts; give them with --prompts FILE");
  }
  if (!request.prompts.empty() && !options.chat && !options.system.empty()) {
    throw ConfigError("--system: it goes through the chat template; add --chat");
  }
  if (!request.prompt_file.empty()) options.prompt = read_prompt(request.prompt_file);
  std::vector<Prompt> prompts;
  if (!request.prompts.empty()) prompts = prompts_of(request);
  // Behind the reading, which an interrupt ends at once with the process.
  StopOnInterrupt interrupts(StopOnInterrupt::Second::ends_process);
  const std::stop_token stop = interrupts.begin();
  try {
    request.prompts.empty() ? run_one(request, stop) : run_each(options, prompts, stop);
  } catch (const Cancelled&) {
    fmt::print(stderr, "ebb: interrupted before the first token\n");
    return kInterrupted;
  }
  return interrupts.interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("generate", "Let a model continue a text, or answer");
  auto request = std::make_shared<Request>();
  GenerateOptions& o = request->options;
  add_model(*verb, o);
  CLI::Option* prompt = verb->add_option("--prompt", o.prompt, "The text to continue");
  CLI::Option* file =
      verb->add_option("--prompt-file", request->prompt_file, "A file with it; -: standard input");
  CLI::Option* prompts = verb->add_option(
      "--prompts", request->prompts,
      "A file of prompts (-: standard input), one a line or JSONL with \"prompt\" or \"messages\"; "
      "answers are JSONL");
  add_sequences(*verb, o);
  prompt->excludes(file)->excludes(prompts);
  file->excludes(prompts);
  verb->add_flag("--chat", o.chat,
                 "The prompt is what a user says: put it through the model's chat template");
  verb->add_option("--system", o.system, "With --chat: instructions before the prompt");
  verb->add_flag("--json", request->json, "Print one JSON object, with the ids of all tokens");
  verb->add_option("--log-probs", o.log_probs,
                   "With --json: the log-probability of each token, and the k likeliest there");
  add_sampling(*verb, o);
  verb->add_option(
      "--trace", o.trace,
      "Write when the tasks of the last tokens ran, on which lane, for ui.perfetto.dev");
  const ConfigFlag config(*verb);
  verb->callback([request, config, prompt, file, prompts, &action] {
    config.apply();
    config.check_required();
    // An empty text may be meant: a model begins one of its own then.
    if (prompt->empty() && file->empty() && prompts->empty()) {
      throw ConfigError(
          "--prompt: there is nothing to continue; give --prompt TEXT, --prompt-file FILE (-: the "
          "standard input) or --prompts FILE");
    }
    action = [request] { return run(*request); };
  });
}

}  // namespace ebb::cli
