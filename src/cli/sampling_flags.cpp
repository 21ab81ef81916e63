#include "cli/sampling_flags.h"

#include "cli/generation_flags.h"
#include "cli/train_flags.h"
#include "cli/words.h"

namespace ebb::cli {

// Optional values: generation_config.json decides what is not given, so there is no default to
// show.
void add_sampling(CLI::App& verb, SamplingOptions& o) {
  const std::string group =
      "Sampling, in this order (where not given: the model's generation_config.json, else "
      "temperature 0.8)";
  verb.add_option("--repetition-penalty", o.repetition_penalty,
                  "Above 1: tokens of the prompt and the text so far become unlikelier")
      ->group(group);
  verb.add_option("--repetition-window", o.repetition_window,
                  "How many of the last tokens the penalty looks at; 0: all")
      ->capture_default_str()
      ->group(group);
  verb.add_option("--temperature", o.temperature, "0: always the likeliest token")->group(group);
  verb.add_option("--top-k", o.top_k, "Draw from the k likeliest tokens only; 0: from all")
      ->group(group);
  verb.add_option("--top-p", o.top_p,
                  "Draw from the likeliest tokens that together have this probability")
      ->group(group);
  verb.add_option("--min-p", o.min_p,
                  "Draw from tokens with at least this share of the likeliest one's probability")
      ->group(group);
  add_seed(verb, o.seed, "Equal seeds give equal texts")->group(group);
  verb.add_option("--max-tokens", o.max_tokens,
                  "Most tokens to generate, cut to what fits; where not given 200");
  verb.add_option("--stop", o.stop,
                  "End the text before this one, which is not shown; may be given several times")
      ->allow_extra_args(false);
  verb.add_flag("--show-special", o.show_special,
                "Show tokens that are marks for models, such as the roles of a chat");
}

void add_model(CLI::App& verb, GenerateOptions& o) {
  verb.add_option("--model", o.model,
                  "A model's folder or GGUF file, a run's folder (its last checkpoint), or "
                  "preset:NAME")
      ->required();
  verb.add_option("--tokenizer", o.tokenizer,
                  "A folder with tokenizer.json; without it the model's own, or bytes");
  add_word(verb, "--dtype", o.dtype, "bf16, fp32, or auto: as stored");
  add_word(verb, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one");
  verb.add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  add_generation_placement(verb, o);
  verb.add_flag("!--no-verify", o.verify,
                "Do not compare a checkpoint's files with its checksums before they are used");
}

}  // namespace ebb::cli
