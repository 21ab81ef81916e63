#include "ebb/evaluate.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cli/config_file.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace ebb::cli {
namespace {

// On stderr, so that the result alone is on the output: one line that renews itself on a terminal,
// elsewhere a line now and then.
class EvaluateProgress final : public EvaluateObserver {
 public:
  ~EvaluateProgress() override { end_line(); }

  void note(const std::string& text) override {
    end_line();
    fmt::print(stderr, "{}\n", text);
  }

  void batch(const EvaluateReport& r) override {
    const auto now = Clock::now();
    if (!terminal_ && now - told_ < kInterval) return;
    told_ = now;
    const std::string line =
        fmt::format("batch {} ({:.1f}%)  loss {:.4f}  {:.0f} tokens/s{}", r.batches, 100 * r.share,
                    r.loss, r.tokens_per_second, time_left(r.seconds_left));
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ ? "" : "\n");
    line_shown_ = terminal_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{5};

  void end_line() {
    if (std::exchange(line_shown_, false)) fmt::print(stderr, "\n");
  }

  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool line_shown_ = false;  // without its end
  Clock::time_point told_ = Clock::now();
};

std::string described(const EvaluateSummary& s) {
  const std::string bits =
      s.bits_per_byte ? fmt::format(", {:.4f} bits per byte", *s.bits_per_byte) : std::string();
  return fmt::format(
      "loss {:.6f}, perplexity {:.4f}{}, over {} tokens ({})\n"
      "{} batches in {}, {:.0f} tokens/s, device {} of {}, host {} of {}\n",
      s.loss, s.perplexity, bits, s.loss_tokens,
      s.whole ? "all of the data" : "the beginning of the data", s.batches,
      format_seconds(s.seconds), s.tokens_per_second, format_bytes(s.device_peak),
      format_bytes(s.device_limit), format_bytes(s.host_peak), format_bytes(s.host_limit));
}

// What a plan goes by, too.
std::shared_ptr<EvaluateOptions> add_flags(CLI::App& verb) {
  auto options = std::make_shared<EvaluateOptions>();
  EvaluateOptions& o = *options;
  verb.add_option("--model", o.model,
                  "A model's folder or GGUF file, a run's folder (its last checkpoint), or "
                  "preset:NAME")
      ->required();
  verb.add_option("--tokenizer", o.tokenizer,
                  "A folder with tokenizer.json, or bytes; the model's own if not given")
      ->group("Data");
  verb.add_option("--sequence", o.sequence,
                  "Tokens in a row; the loss depends on it, as a row's first tokens see little "
                  "before them")
      ->capture_default_str()
      ->group("Batch");
  verb.add_option("--micro-batch", o.micro_batch, "Rows that go through the model at once")
      ->capture_default_str()
      ->group("Batch");
  add_bytes(verb, "--device-memory", o.device_memory,
            "The most that may be held on the device, such as 16GiB; all it has if not given")
      ->group("Limits");
  add_bytes(verb, "--host-memory", o.host_memory, "The most that may be held in host memory")
      ->group("Limits");
  add_disks(verb, o.disk,
            "A folder for weights that host memory cannot hold, PATH or PATH:BYTES; several for "
            "several drives. Nothing of it is left at the end")
      ->group("Limits");
  const std::string group =
      "Placement (the plan decides what is not given; never changes the numbers)";
  add_blocks(verb, "--weights", o.weights, kWeightWords,
             "Where weights live: resident (on the device), stream (in host memory, or on a disk; "
             "a block's come up before it computes), a number of blocks that stream, auto")
      ->group(group);
  add_word(verb, "--vocabulary", o.vocabulary,
           "Whether embedding and head use the whole vocabulary at once: whole, cut (a piece at a "
           "time; vocabularies of 32,768 tokens and more), auto")
      ->group(group);
  add_count(verb, "--disk-weights", o.disk_weights,
            "Blocks, of those whose weights stream, whose weights live on the disk")
      ->group(group);
  verb.add_option("--chunk-parameters", o.chunk_parameters,
                  "Parameters that are placed and moved together")
      ->group(group);
  verb.add_option("--depth", o.depth,
                  "Blocks whose weights may be on their way to the device at once, 2 or more")
      ->group(group);
  add_word(verb, "--dtype", o.dtype, "bf16, fp32, or auto: as stored")->group("Run");
  add_word(verb, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one")
      ->group("Run");
  verb.add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str()
      ->group("Run");
  verb.add_option("--profile", o.profile,
                  "Speeds to plan with, from ebb probe --out FILE; those it kept if not given")
      ->group("Run");
  verb.add_option("--trace", o.trace,
                  "Write when every task of the last batches runs, and on which lane, to this "
                  "file: open it at ui.perfetto.dev (docs/trace.md)")
      ->group("Run");
  return options;
}

}  // namespace

void add_evaluate(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("evaluate", "Measure a model's loss and perplexity on data");
  const std::shared_ptr<EvaluateOptions> options = add_flags(*verb);
  auto json = std::make_shared<bool>(false);
  EvaluateOptions& o = *options;
  verb->add_option(
          "--data", o.data,
          "Text, JSONL, CSV and token files, also compressed (.gz, .zst), or folders of them")
      ->required();
  add_word(*verb, "--packing", o.packing,
           "stream: tokens run on over the borders of rows; fit: as many whole examples as fit "
           "into a row; none: one example a row; auto: none for prompts and messages, else stream")
      ->group("Data");
  add_word(*verb, "--loss", o.loss,
           "completion: prompts and what users say carry no loss; all: they do")
      ->group("Data");
  add_word(*verb, "--on-bad-data", o.on_bad_data,
           "stop: a line that cannot be used ends the run; skip: it is passed over and counted")
      ->group("Data");
  verb->add_option("--text-column", o.text_column,
                   "Of JSONL and CSV: the key or column that holds the text, where it is not "
                   "\"text\"")
      ->group("Data");
  verb->add_option("--messages-column", o.messages_column,
                   "Of JSONL and CSV: the key or column that holds the messages, where it is not "
                   "\"messages\" or \"conversations\"")
      ->group("Data");
  verb->add_option("--batches", o.batches, "Most batches; all of the data if not given")
      ->group("Batch");
  verb->add_option("--max-tokens", o.max_tokens,
                   "Most tokens, rounded up to whole batches; all of the data if not given")
      ->group("Batch");
  verb->add_flag("--json", *json, "Print one JSON object")->group("Run");
  verb->add_flag("!--no-verify", o.verify,
                 "Do not compare a checkpoint's files with its checksums before they are used")
      ->group("Run");
  const ConfigFlag config(*verb);
  verb->callback([options, json, config, &action] {
    config.apply();
    config.check_required();
    action = [options, json] {
      EvaluateSummary summary;
      {
        EvaluateProgress progress;
        summary = evaluate(*options, progress);
      }
      print_out(*json ? summary.json + "\n" : described(summary));
      return 0;
    };
  });
}

CLI::App* add_plan_evaluate(CLI::App& plan, Action& action) {
  CLI::App* verb = plan.add_subcommand(
      "evaluate", "Show where every byte would go and what a batch to evaluate would take");
  const std::shared_ptr<EvaluateOptions> options = add_flags(*verb);
  // Taken so that an evaluate command can be planned by changing the verb alone.
  verb->add_option("--data", options->data, "Not needed for a plan")->group("");
  const std::shared_ptr<std::string> machine = add_machine(*verb);
  const ConfigFlag config(*verb, "evaluate");
  verb->callback([options, machine, config, &action] {
    config.apply();
    config.check_required();
    action = [options, machine] {
      print_out(explain_evaluation(*options, *machine));
      return 0;
    };
  });
  return verb;
}

}  // namespace ebb::cli
