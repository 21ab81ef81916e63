#include "cli/train_flags.h"

#include <fmt/format.h>

#include "cli/words.h"
#include "ebb/error.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

// A second word is a unit, or the value of the same flag given once more.
void refuse_repetition(const std::string& flag, const std::vector<std::string>& words) {
  if (words.size() < 2 || words[1].empty() || !(words[1][0] >= '0' && words[1][0] <= '9')) return;
  throw ConfigError(
      fmt::format("{} is given 2 times ({}, {}); give it once", flag, words[0], words[1]));
}

}  // namespace

CLI::Option* add_bytes(CLI::App& verb, const std::string& flag, std::optional<Bytes>& value,
                       const std::string& help) {
  // A unit may stand apart from its number; the words are joined again for the error to name.
  return verb
      .add_option_function<std::vector<std::string>>(
          flag,
          [&value, flag](const std::vector<std::string>& words) {
            refuse_repetition(flag, words);
            std::string text;
            for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
            value = parse_bytes(text, flag);
          },
          help)
      ->type_name("BYTES")
      ->expected(1, 2);
}

CLI::Option* add_seed(CLI::App& verb, std::uint64_t& value, const std::string& help) {
  return verb.add_option("--seed", value, help)->capture_default_str();
}

namespace {

// A choice of blocks: `parse` takes what the user wrote; `usual` is what help shows.
CLI::Option* add_blocks_flag(CLI::App& verb, const std::string& flags, const std::string& usual,
                             const std::function<void(const std::string&)>& parse,
                             const std::string& help) {
  return verb.add_option_function<std::string>(flags, parse, help)->default_str(usual);
}

}  // namespace

CLI::Option* add_count(CLI::App& verb, const std::string& flag, Blocks& value,
                       const std::string& help) {
  return verb.add_option_function<std::int64_t>(
      flag, [&value](const std::int64_t& count) { value = count; }, help);
}

std::shared_ptr<std::string> add_machine(CLI::App& verb) {
  auto machine = std::make_shared<std::string>();
  verb.add_option("--machine", *machine,
                  "Plan for a machine that need not be here: rtx-3090, rtx-4090, rtx-5090, "
                  "a100-80gb, h100, h200, cpu-server, or the file of a profile (ebb probe)")
      ->group("Run");
  return machine;
}

namespace {

void add_batch(CLI::App& verb, TrainOptions& o) {
  verb.add_option("--sequence", o.sequence, "Tokens in a sequence")
      ->capture_default_str()
      ->group("Batch");
  verb.add_option("--micro-batch", o.micro_batch, "Sequences that go through the model at once")
      ->capture_default_str()
      ->group("Batch");
  verb.add_option("--accumulate", o.accumulate,
                  "Micro-batches in a step, on each of several ranks; their gradients are summed")
      ->capture_default_str()
      ->group("Batch");
  verb.add_option("--gradient-groups", o.gradient_groups,
                  "Groups of a step's micro-batches whose gradients are summed first, then the "
                  "groups' sums; fewer send less between ranks, and change the numerics; not "
                  "given: one for each micro-batch")
      ->group("Batch");
}

// What reads and packs the data. --data itself is train's: plan does without.
void add_data(CLI::App& verb, TrainOptions& o) {
  const auto flag = [&](const char* name, auto& value, const char* help) {
    return verb.add_option(name, value, help)->group("Data");
  };
  flag("--tokenizer", o.tokenizer,
       "A folder with tokenizer.json, or bytes; the model's own if not given")
      ->type_name(kPathType);
  add_word(
      verb, "--packing", o.packing,
      "stream: tokens run on over the borders of rows; fit: as many whole examples as fit into a "
      "row; none: one example a row; auto: none for prompts and messages, else stream")
      ->group("Data");
  add_word(verb, "--loss", o.loss,
           "completion: prompts and what users say carry no loss; all: they do")
      ->group("Data");
  add_word(verb, "--on-bad-data", o.on_bad_data,
           "stop: a line that cannot be used (not JSON, wrong keys, not UTF-8, refused by the chat "
           "template) ends the run; skip: it is passed over, the count is told and in the summary")
      ->group("Data");
  flag("--text-column", o.text_column,
       "Of JSONL and CSV: the key or column that holds the text, where it is not \"text\"");
  flag("--messages-column", o.messages_column,
       "Of JSONL and CSV: the key or column that holds the messages, where it is not \"messages\" "
       "or "
       "\"conversations\"");
  verb.add_flag("--accept-changed-data", o.accept_changed_data,
                "With --resume: go on though the data is not what the checkpoint was trained on, "
                "at the same item number; the run remembers that it was changed")
      ->group("Data");
  flag("--eval-data", o.eval_data, "Files or folders to validate on")->type_name(kPathType);
  flag("--eval-share", o.eval_share,
       "Share of --data to validate on, such as 0.01: never trained on, whatever the seed");
  flag("--eval-batches", o.eval_batches, "Most batches to validate on each time")
      ->capture_default_str();
  flag("--eval-every", o.eval_every, "Steps between validations; 0: at the end only")
      ->capture_default_str();
}

void add_limits(CLI::App& verb, TrainOptions& o) {
  add_bytes(verb, "--device-memory", o.device_memory,
            "The most that may be held on the device, such as 16GiB; all it has if not given")
      ->group("Limits");
  add_bytes(verb, "--host-memory", o.host_memory, "The most that may be held in host memory")
      ->group("Limits");
  add_disks(verb, o.disk,
            "A folder for what host memory cannot hold, PATH or PATH:BYTES, such as "
            "/scratch:500GiB; several for several drives. Nothing of it is left at the end")
      ->group("Limits");
  add_bytes(verb, "--disk-endurance", o.disk_endurance,
            "What the drives may be written in their life, such as 600TB: the plan then says which "
            "share of it the run takes")
      ->group("Limits");
}

void add_optimizer(CLI::App& verb, TrainOptions& o) {
  // Numbers that every rule has show their default; where each rule has its own, the help says it
  // in words.
  const char* group = "Optimizer";
  const auto number = [&](const char* flag, auto& value, const char* help) {
    verb.add_option(flag, value, help)->capture_default_str()->group(group);
  };
  const auto optional = [&](const char* flag, std::optional<double>& value, const char* help) {
    verb.add_option(flag, value, help)->group(group);
  };
  const auto word = [&](const char* flag, auto& value, const char* help) {
    add_word(verb, flag, value, help)->group(group);
  };
  word("--optimizer", o.optimizer,
       "adamw, adam (the decay is part of the gradient), lion, sgd (with momentum) or adagrad");
  word("--state-format", o.state_format,
       "The moments of adamw: exact (fp32, 10 bytes a parameter with the master's low half), bf16 "
       "(6) or int8 (4), both rounded at random; changes the numbers a little, placement never "
       "does");
  number("--learning-rate", o.learning_rate, "Peak learning rate");
  word("--schedule", o.schedule, "constant, linear, cosine or wsd (warm up, stay, decay)");
  number("--warmup", o.warmup, "Steps until the peak is reached");
  optional("--final-share", o.final_share,
           "Learning rate at the end as a share of the peak (cosine 0.1, linear and wsd 0)");
  number("--decay-share", o.decay_share, "wsd: the share of the steps that decay");
  number("--clip", o.clip, "Largest norm of the gradient; 0 for no clipping");
  optional("--weight-decay", o.weight_decay,
           "Of matrices and embeddings; norms and biases do not decay (adamw and lion 0.1, others "
           "0)");
  optional("--beta1", o.beta1, "Decay of the first moment (0.9)");
  optional("--beta2", o.beta2, "Decay of the second moment (adamw 0.95, adam 0.999, lion 0.99)");
  optional("--epsilon", o.epsilon, "Added to the root of the second moment (1e-8, adagrad 1e-10)");
  optional("--momentum", o.momentum, "sgd: the share of the last move that goes on (0.9)");
  verb.add_flag("--nesterov", o.nesterov, "sgd: looks one move ahead")->group(group);
}

// All of these are free to differ between a run and its resumption. A plan prints its choices by
// these names (plan::flags_of), so that they can be given back.
void add_placement(CLI::App& verb, TrainOptions& o) {
  const std::string group =
      "Placement (the plan decides what is not given; never changes the numbers)";
  add_word(verb, "--states", o.states,
           "Where optimizer states are updated: resident (they stay on the device), stream (they "
           "live in host memory, or on a disk, and ride through the device), host (the CPU updates "
           "them), auto")
      ->group(group);
  CLI::Option* fraction = verb.add_option("--offload-fraction", o.offload_fraction,
                                          "Share of the parameters whose state leaves the device");
  fraction->group(group);
  verb.add_option("--host-fraction", o.host_fraction,
                  "Share of the parameters, part of those, that the CPU updates")
      ->group(group);
  // An alias for people who know it by this name elsewhere.
  verb.add_flag_callback(
          "--use-cpu-offloading", [&o] { o.offload_fraction = 1.0; },
          "No state stays on the device (the same as --offload-fraction 1)")
      ->excludes(fraction)
      ->group(group);
  add_blocks(
      verb, "--weights", o.weights, kWeightWords,
      "Where weights live: resident (on the device), stream (in host memory, or on a disk; a "
      "block's come up before each of its passes), a number of blocks that stream, auto")
      ->group(group);
  add_blocks(verb, "--gradient-sums", o.gradient_sums, kGradientSumWords,
             "Where gradients are gathered: device, host (they leave the device as they are "
             "made), a number of blocks, from the last, whose gradients leave, auto")
      ->group(group);
  add_word(verb, "--vocabulary", o.vocabulary,
           "Whether embedding and head use the whole vocabulary at once: whole, cut (a piece "
           "at a time, so that no more of it must be on the device; vocabularies of 32,768 "
           "tokens and more), auto (whole where it fits)")
      ->group(group);
  add_blocks(verb, "--recompute", o.recompute, kRecomputeWords,
             "Blocks that run forward twice instead of keeping activations: none, block (all), a "
             "number of blocks, auto")
      ->group(group);
  add_blocks(verb, "--save-cheap,--keep-cheap", o.save_cheap, kSaveCheapWords,
             "Blocks, from the last, that keep even what is cheap to make again (outputs of "
             "norms and the MLP's product): none, all, a number of blocks, auto")
      ->group(group);
  // Everywhere on the disk, too, unless --disk-activations says how many.
  add_blocks_flag(
      verb, "--activations", "auto",
      [&o](const std::string& word) {
        const bool on_disk = word == kActivationWords.more;
        o.activations =
            on_disk ? Blocks::all() : parse_blocks(word, "--activations", kActivationWords);
        if (on_disk) o.disk_activations = Blocks::all();
      },
      "Where block inputs wait for the backward pass: device, host, disk, a number of "
      "blocks whose inputs go to host memory, auto")
      ->group(group);
  verb.add_option("--disk-fraction", o.disk_fraction,
                  "Share of the parameters whose state lives on the disk")
      ->group(group);
  add_count(verb, "--disk-weights", o.disk_weights,
            "Blocks, of those whose weights stream, whose weights live on the disk")
      ->group(group);
  add_count(verb, "--disk-sums", o.disk_sums,
            "Blocks, from the last, whose gradients are gathered on the disk, of those whose "
            "gradients leave the device")
      ->group(group);
  add_count(verb, "--disk-activations", o.disk_activations,
            "Blocks, of those whose inputs leave the device, whose inputs wait on the disk")
      ->group(group);
  verb.add_option("--chunk-parameters", o.chunk_parameters,
                  "Parameters that are placed, moved and updated together")
      ->group(group);
  verb.add_option("--depth", o.depth,
                  "Gradients, weights, inputs or staging buffers of one kind that may be on their "
                  "way between tiers at once, 2 or more: more hides more and takes more memory")
      ->group(group);
}

}  // namespace

void add_train_flags(CLI::App& verb, TrainOptions& o) {
  verb.add_option("--model", o.model,
                  "A model's folder or GGUF file, a run's folder, or a preset such as preset:small")
      ->type_name(kPathType)
      ->required();
  add_data(verb, o);
  add_limits(verb, o);
  add_batch(verb, o);
  add_optimizer(verb, o);
  add_placement(verb, o);
  verb.add_option("--steps", o.steps, "Steps of the whole run")
      ->capture_default_str()
      ->group("Run");
  add_seed(verb, o.seed, "Of the initial weights and the order of the data")->group("Run");
  add_word(verb, "--dtype", o.dtype, "Weights and activations: bf16 or fp32")->group("Run");
  add_word(verb, "--gradients", o.gradients, "bf16, fp32, or auto: as the weights")->group("Run");
  add_word(verb, "--device", o.device, "cpu, cuda, or auto: a GPU where there is one")
      ->group("Run");
  verb.add_option("--profile", o.profile,
                  "Speeds to plan with, from ebb probe --out FILE; those it kept if not given")
      ->type_name(kPathType)
      ->group("Run");
  verb.add_option("--trace", o.trace,
                  "Write when every task of a step runs, and on which lane, to this file: open it "
                  "at ui.perfetto.dev (docs/trace.md). train writes what it measured, plan what it "
                  "predicts")
      ->type_name(kFileType)
      ->group("Run");
  verb.add_option("--trace-steps", o.trace_steps, "Steps of the run that --trace shows: the last")
      ->capture_default_str()
      ->group("Run");
  verb.add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str()
      ->group("Run");
}

}  // namespace ebb::cli
