#include "ebb/bench.h"

#include <charconv>

#include <fmt/format.h>

#include "cli/commit.h"
#include "cli/measuring.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "ebb/error.h"

namespace ebb::cli {

namespace {

// What was measured is printed even where a row failed: the exit code tells of the failure.
int finish(const BenchResult& result, bool json) {
  print_out(json ? result.json + "\n" : result.text);
  if (result.failure.empty()) return 0;
  fmt::print(stderr, "ebb: {}\n", result.failure);
  return 1;
}

void add_optimizer(CLI::App& verb, Action& action) {
  CLI::App* optimizer = verb.add_subcommand(
      "optimizer", "The optimizer's updates on the CPU: every rule and state format");
  // Flags refer to the options; the callback below keeps them until the action has run. So in every
  // verb.
  auto options = std::make_shared<OptimizerBenchOptions>();
  OptimizerBenchOptions& o = *options;
  add_words(*optimizer, "--rule", o.rules, "Only these: adamw, adam, lion, sgd, adagrad");
  add_words(*optimizer, "--format", o.formats, "Only these: exact, bf16, int8");
  optimizer->add_option("--threads", o.threads,
                        "CPU threads, one number or several; 0 for all that may be used "
                        "(1 and all if not given)");
  optimizer->add_option("--parameters", o.parameters, "How many; 0 for far more than caches hold")
      ->capture_default_str();
  optimizer->add_option("--seconds", o.seconds, "To spend on each row of the table, or more")
      ->capture_default_str();
  auto json = std::make_shared<bool>(false);
  optimizer->add_flag("--json", *json, "Print one JSON object");
  optimizer->callback([options, json, &action] {
    action = [options, json] {
      // The progress line ends with this scope, before the result is printed.
      const BenchResult result = [&] {
        const MeasuringProgress progress;
        return bench_optimizer(*options, [&](const BenchProgress& p) { progress(p); });
      }();
      return finish(result, *json);
    };
  });
}

void add_disk(CLI::App& verb, Action& action) {
  CLI::App* disk = verb.add_subcommand(
      "disk", "What a disk tier reads and writes of a run: direct, with checksums");
  auto folders = std::make_shared<std::vector<DiskFolder>>();
  add_disks(*disk, *folders,
            "A folder on the drive, and how much to write there, as PATH:BYTES (8GiB); "
            "several for several drives at once")
      ->required();
  auto json = std::make_shared<bool>(false);
  disk->add_flag("--json", *json, "Print one JSON object");
  disk->callback([folders, json, &action] {
    action = [folders, json] {
      const BenchResult result = [&] {
        const MeasuringProgress progress;
        return bench_disk(*folders, [&](const BenchProgress& p) { progress(p); });
      }();
      return finish(result, *json);
    };
  });
}

void add_training(CLI::App& verb, Action& action) {
  CLI::App* train = verb.add_subcommand(
      "train",
      "Training under limits of device memory: speed predicted and measured, its share of "
      "resident speed, utilization, peaks, digests");
  auto options = std::make_shared<TrainBenchOptions>();
  TrainBenchOptions& o = *options;
  const std::string rows = "Rows (those that suit the device if none of these is given)";
  // Flags that say which rows there are; without any of them the table decides.
  const auto of_rows = [&](const char* flag, auto& value, const char* help) {
    train->add_option(flag, value, help)->group(rows);
  };
  of_rows("--model", o.model, "A folder or a preset; its weights are random ones");
  of_rows("--sequence", o.sequence, "Tokens in a sequence");
  of_rows("--micro-batch", o.micro_batch, "Sequences that go through the model at once");
  of_rows("--accumulate", o.accumulate, "Micro-batches in a step, one number or several");
  of_rows("--limit", o.limits,
          "Of device memory, one or several: resident (states stay there), -90% (as much as that "
          "takes less 90% of the states' bytes), off (every state leaves it), all (it has), or "
          "bytes such as 16GiB");
  add_words(*train, "--state-format", o.state_formats, "One or several of exact, bf16, int8")
      ->group(rows);
  add_word(*train, "--table", o.table,
           "Rows where none is given: states (leave a device that holds the rest), or tiers "
           "(limits that weights and gradients must leave too)")
      ->group(rows);
  train->add_flag("--curve", o.curve, "Four limits with two numbers of micro-batches")->group(rows);
  train->add_option("--only", o.only, "Only these rows, by their numbers in the table")
      ->group(rows);
  train->add_flag("--against-hand-made", o.against_hand_made,
                  "Also time eight hand-made plans of each row");
  train->add_option("--steps", o.steps, "Steps to measure of each row")->capture_default_str();
  train->add_option("--warm-up", o.warm_up, "Steps before those")->capture_default_str();
  add_bytes(*train, "--host-memory", o.host_memory, "The most that may be held in host memory");
  add_disks(*train, o.disk,
            "A folder for what host memory cannot hold; several for several drives");
  add_word(*train, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one");
  train->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  train->add_option(
      "--profile", o.profile,
      "Speeds to plan with, from ebb probe --out FILE; those it kept if not given, or "
      "measured first where it kept none");
  auto json = std::make_shared<bool>(false);
  train->add_flag("--json", *json, "Print one JSON object");
  train->callback([options, json, &action] {
    action = [options, json] {
      const BenchResult result = [&] {
        const MeasuringProgress progress;
        return bench_training(*options, [&](const BenchProgress& p) { progress(p); });
      }();
      return finish(result, *json);
    };
  });
}

// "512,128". Throws ConfigError.
GenerateBenchOptions::PromptAndTokens parse_pair(const std::string& text) {
  GenerateBenchOptions::PromptAndTokens pair;
  const char* const end = text.data() + text.size();
  const auto [comma, prompt] = std::from_chars(text.data(), end, pair.prompt);
  if (prompt == std::errc{} && comma != end && *comma == ',') {
    const auto [last, tokens] = std::from_chars(comma + 1, end, pair.tokens);
    if (tokens == std::errc{} && last == end) return pair;
  }
  throw ConfigError(fmt::format(
      "--pg '{}': expected the prompt's tokens and those behind it, such as 512,128", text));
}

// A list of limits; `values` stays empty where the flag is not given.
void add_limits(CLI::App& verb, const std::string& flag, std::vector<Bytes>& values,
                const std::string& help, const std::string& group) {
  verb.add_option_function<std::vector<std::string>>(
          flag,
          [&values, flag](const std::vector<std::string>& words) {
            for (const std::string& word : words) values.push_back(parse_bytes(word, flag));
          },
          help)
      ->type_name("BYTES")
      ->group(group)
      ->delimiter(',');
}

void add_generation(CLI::App& verb, Action& action) {
  CLI::App* generate = verb.add_subcommand(
      "generate",
      "Prompts and tokens of a model, as llama-bench has them: speed measured and predicted, its "
      "share of the ceiling");
  auto options = std::make_shared<GenerateBenchOptions>();
  GenerateBenchOptions& o = *options;
  o.commit = kBuildCommit;
  const std::string tests = "Tests (a prompt of 512 and 128 tokens if none of the first three)";
  const auto of_tests = [&](const char* flag, auto& value, const char* help) {
    generate->add_option(flag, value, help)->group(tests)->delimiter(',');
  };
  of_tests("--prompt-tokens", o.prompt_tokens, "Read a prompt of so many tokens (pp512)");
  of_tests("--tokens", o.tokens, "Generate so many tokens, one after the other (tg128)");
  generate
      ->add_option_function<std::vector<std::string>>(
          "--pg",
          [&o](const std::vector<std::string>& words) {
            for (const std::string& word : words) o.both.push_back(parse_pair(word));
          },
          "Both, one behind the other, as PROMPT,TOKENS (pp512+tg128)")
      ->type_name("PROMPT,TOKENS")
      ->group(tests);
  of_tests("--depth", o.depths, "Tokens that lie before, in the cache (@ d8192); 0 if not given");
  of_tests(
      "--batch", o.batches,
      "Sequences at once: prompts one after the other, tokens together (x 32); 1 if not given");
  generate
      ->add_option("--repetitions", o.repetitions, "Of each test, after one that does not count")
      ->capture_default_str()
      ->group(tests);
  const std::string crossed = "Setups (each may be several: every test is made with all of them)";
  generate
      ->add_option("--model", o.models,
                   "A folder, a GGUF file, or a preset, whose weights are random (one that suits "
                   "the device if not given)")
      ->group(crossed);
  add_words(*generate, "--dtype", o.dtypes, "bf16, fp32, or auto: as stored")
      ->group(crossed)
      ->delimiter(',');
  generate->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->group(crossed)
      ->delimiter(',');
  add_limits(*generate, "--device-memory", o.device_memory,
             "The most that may be held on the device", crossed);
  add_limits(*generate, "--host-memory", o.host_memory, "The most that may be held in host memory",
             crossed);
  add_word(*generate, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one");
  generate
      ->add_option("--ceiling-seconds", o.ceiling_seconds,
                   "To spend on each rate that ceilings are made of, or more")
      ->capture_default_str();
  generate->add_option(
      "--profile", o.profile,
      "Speeds to plan with, from ebb probe --out FILE; those it kept if not given, or "
      "measured first where it kept none");
  auto json = std::make_shared<bool>(false);
  generate->add_flag("--json", *json, "Print one JSON object");
  generate->callback([options, json, &action] {
    action = [options, json] {
      const BenchResult result = [&] {
        const MeasuringProgress progress;
        return bench_generation(*options, [&](const BenchProgress& p) { progress(p); });
      }();
      return finish(result, *json);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "bench", "Measure how fast this machine is, and what share of its ceiling that is");
  verb->require_subcommand(1);
  add_optimizer(*verb, action);
  add_training(*verb, action);
  add_generation(*verb, action);
  add_disk(*verb, action);
}

}  // namespace ebb::cli
