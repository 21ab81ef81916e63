#include "ebb/quantize.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"

namespace ebb::cli {
namespace {

// One line that renews itself on a terminal, plain lines in a pipe.
void show(const QuantizeProgress& p, bool terminal) {
  print_out(fmt::format("{}{}% of {} parameters  {}/s{}{}", terminal ? "\r\033[K" : "",
                        p.of_parameters == 0 ? 100 : 100 * p.parameters / p.of_parameters,
                        format_count(p.of_parameters),
                        format_count(static_cast<std::int64_t>(p.parameters_per_second)),
                        time_left(p.seconds_left), terminal ? "" : "\n"));
}

int run(const QuantizeOptions& options) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const QuantizeSummary made =
      quantize(options, [&](const QuantizeProgress& p) { show(p, terminal); });
  // Leaves the last line of progress where it is.
  if (terminal) print_out("\n");
  for (const std::string& warning : made.warnings) fmt::print(stderr, "Note: {}\n", warning);
  if (!made.fallbacks.empty()) {
    constexpr std::size_t most = 4;
    const std::size_t shown = std::min(most, made.fallbacks.size());
    print_out(fmt::format(
        "Rows that are no whole blocks, in another type than usual: {}{}\n",
        fmt::join(made.fallbacks.begin(), made.fallbacks.begin() + static_cast<long>(shown), ", "),
        made.fallbacks.size() > most ? fmt::format(" and {} more", made.fallbacks.size() - most)
                                     : ""));
  }
  print_out(fmt::format("{}: {}, {} parameters, {:.2f} bits each ({}), in {}\n", options.out,
                        format_bytes(made.bytes), format_count(made.parameters),
                        made.bits_per_parameter, made.types, format_seconds(made.seconds)));
  return 0;
}

}  // namespace

void add_quantize(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("quantize", "Write a model as a GGUF file, in fewer bits if wanted");
  auto options = std::make_shared<QuantizeOptions>();
  QuantizeOptions& o = *options;
  verb->add_option("--model", o.model,
                   "A model's folder, a run's folder (its last checkpoint), a GGUF file, or "
                   "preset:NAME with random weights")
      ->required();
  verb->add_option("--out", o.out, "The GGUF file to make; a GGUF file there is replaced")
      ->required();
  verb->add_option("--type", o.type,
                   fmt::format("{}; tensors have the types that llama.cpp gives them",
                               fmt::join(quantize_types(), ", ")))
      ->required();
  verb->add_option("--tokenizer", o.tokenizer,
                   "A folder with tokenizer.json, bytes, or none; without it the model's own");
  add_seed(*verb, o.seed, "Of a preset's random weights");
  verb->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  verb->add_flag("!--no-verify", o.verify,
                 "Do not compare a checkpoint's files with its checksums before they are used");
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace ebb::cli
