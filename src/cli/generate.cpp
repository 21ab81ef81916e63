#include "ebb/generate.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "cli/train_flags.h"
#include "cli/verbs.h"

namespace ebb::cli {

void add_generate(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("generate", "Let a model continue a text");
  auto options = std::make_shared<GenerateOptions>();
  GenerateOptions& o = *options;
  verb->add_option("--model", o.model, "A model's folder, or a run's: its last checkpoint")
      ->required();
  verb->add_option("--prompt", o.prompt, "The text to continue");
  verb->add_option("--max-tokens", o.max_tokens, "Most tokens to generate")->capture_default_str();
  verb->add_option("--temperature", o.temperature, "0: always the likeliest token")
      ->capture_default_str();
  verb->add_option("--top-k", o.top_k, "Draw from the k likeliest tokens only; 0: from all")
      ->capture_default_str();
  verb->add_option("--top-p", o.top_p,
                   "Draw from the likeliest tokens that together have this probability")
      ->capture_default_str();
  add_seed(*verb, o.seed, "Equal seeds give equal texts");
  verb->add_option("--dtype", o.dtype, "bf16, fp32, or auto: as stored")->capture_default_str();
  verb->add_option("--device", o.device, "cpu, cuda, or auto: a GPU where there is one")
      ->capture_default_str();
  verb->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  add_bytes(*verb, "--device-memory", o.device_memory, "The most that may be held on the device");
  add_bytes(*verb, "--host-memory", o.host_memory, "The most that may be held in host memory");
  verb->callback([options, &action] {
    action = [options] {
      // Printed with the first piece: what was refused leaves nothing on the output.
      std::string unprinted = options->prompt;
      const GenerateSummary summary = generate(*options, [&](std::string_view piece) {
        fmt::print("{}{}", std::exchange(unprinted, {}), piece);
        return std::fflush(stdout) == 0;
      });
      fmt::print("{}\n", unprinted);
      fmt::print(stderr, "{} tokens, {:.1f} tokens/s, prompt of {} in {}, device {} of {}\n",
                 summary.tokens, summary.tokens_per_second, summary.prompt_tokens,
                 format_seconds(summary.prompt_seconds), format_bytes(summary.device_peak),
                 format_bytes(summary.device_limit));
      return 0;
    };
  });
}

}  // namespace ebb::cli
