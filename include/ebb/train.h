// Training a model under memory limits, and asking beforehand what it would take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/units.h"

namespace ebb {

// When a run is saved, besides when it is stopped or fails.
struct SaveEvery {
  enum class Kind : std::uint8_t {
    automatic,  // every ten minutes, or less often where saves take more than 5% of the time
    steps,      // after every `count` steps
    seconds,    // when `count` seconds have passed since the last save
    end,        // at the end only
    never       // not even at the end
  };
  Kind kind = Kind::automatic;
  double count = 0;  // of steps or seconds
};

// What to train, with what, within what. Fields are named as the command line's flags.
struct TrainOptions {
  std::string model;              // a folder with config.json and model.safetensors, or preset:NAME
  std::vector<std::string> data;  // text, JSONL and token files, or folders of them
  std::string out;                // the run's folder

  // What is made of the data.
  std::string tokenizer;            // a folder with tokenizer.json, or bytes; none: the model's own
  std::string packing = "auto";     // stream, fit, none; auto: none for prompts, else stream
  std::string loss = "completion";  // or all: also on prompts
  std::string on_bad_data = "stop";  // or skip: what cannot be used is passed over and counted
  bool accept_changed_data = false;  // go on though the data is not what the checkpoint says
  std::vector<std::string> eval_data;
  std::optional<double> eval_share;  // of the data's items, held out from training
  std::int64_t eval_batches = 16;    // at most, each time
  std::int64_t eval_every = 0;       // steps; 0: at the end only

  // Limits; none means what the machine has.
  std::optional<Bytes> device_memory;
  std::optional<Bytes> host_memory;
  // Folders for what host memory cannot hold, PATH or PATH:BYTES, best one for each drive. None: no
  // disk is used.
  std::vector<std::string> disk;
  std::optional<Bytes> disk_endurance;  // what the drives may be written in their life

  // The batch of a step: accumulate micro-batches of micro_batch sequences each.
  std::int64_t sequence = 512;
  std::int64_t micro_batch = 4;
  std::int64_t accumulate = 1;

  // The optimizer. What is not given is the rule's own; what a rule does not have is refused.
  std::string optimizer = "adamw";  // adam, lion, sgd, adagrad
  double learning_rate = 3e-4;
  double clip = 1.0;  // of the global gradient norm; 0 for none
  std::optional<double> weight_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::optional<double> momentum;
  bool nesterov = false;
  std::string state_format = "exact";  // the moments of adamw: exact (fp32), bf16, int8
  std::string schedule = "cosine";     // constant, linear, cosine, wsd
  std::int64_t warmup = 0;
  std::optional<double> final_share;  // of the learning rate at the end
  double decay_share = 0.2;           // wsd: the share of the steps that decay

  // Where things live; "auto" leaves it to the plan.
  std::string states = "auto";  // resident, stream, host
  std::optional<double> offload_fraction;
  std::optional<double> host_fraction;
  std::string weights = "auto";        // resident, stream, or a number of blocks
  std::string gradient_sums = "auto";  // device, host, or a number of blocks
  std::string recompute = "auto";      // none, block, or a number of blocks
  std::string keep_cheap = "auto";     // none, all, or a number of blocks
  std::string activations = "auto";    // device, host, disk, or a number of blocks
  // Of what leaves the device: what is on a disk. Not given: as much as host memory cannot hold.
  std::optional<double> disk_fraction;           // states, as a share of all parameters
  std::optional<std::int64_t> disk_weights;      // of streamed blocks
  std::optional<std::int64_t> disk_sums;         // of blocks, from the last
  std::optional<std::int64_t> disk_activations;  // of blocks whose inputs leave the device
  std::optional<std::int64_t> chunk_parameters;
  std::optional<std::int64_t> depth;  // transfers of one kind that may be on their way at once

  // The run.
  std::int64_t steps = 100;
  std::uint64_t seed = 0;
  std::string dtype = "bf16";      // or fp32
  std::string gradients = "auto";  // bf16, fp32; auto: as the weights
  std::string device = "auto";     // cpu, cuda; auto: a GPU where there is one
  int threads = 0;                 // 0: as many as the machine lets us use
  std::string profile;             // a file of `ebb probe`; empty: the one it kept, if it fits
  SaveEvery save_every{};
  // A last save that fails (a full disk) is tried again for so long before its error is told.
  double save_patience_seconds = 600;
  int keep = 2;  // checkpoints; 0: nothing is saved
  bool resume = false;
  // Files that the caller writes: like out and trace no data where a folder of data holds them.
  std::vector<std::string> outputs;
  std::string trace;             // a file for when which task ran; empty: none
  std::int64_t trace_steps = 8;  // that it shows: the last ones
  bool verify = true;            // the checksums of a model that is a checkpoint, before it is used
  bool summarize = true;  // make TrainSummary::json; takes a pass over all weights and states
};

struct StepReport {
  std::int64_t step = 0;  // from 1
  std::int64_t steps = 0;
  double loss = 0;  // mean over the step's tokens
  double norm = 0;  // of the gradient, before clipping
  double learning_rate = 0;
  double tokens_per_second = 0;
  // Of the speed of light, where that was measured (`ebb probe`): the model's products and
  // attention over the time they would take at the speed of matrix products alone.
  std::optional<double> share_of_light;
  double seconds_left = 0;  // a prediction from the steps so far
  Bytes device_bytes = 0;   // the most that was in use so far
};

// Told what happens, on the thread that called train().
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void note(const std::string& text) = 0;  // a line for people
  // The first step is next: from now on there is something to save.
  virtual void started() {}
  virtual void step(const StepReport& report) = 0;
  // Asked after every step and while it validates; true ends the run after a save.
  virtual bool stop_requested() { return false; }
};

struct TrainSummary {
  std::int64_t steps = 0;  // reached
  bool stopped = false;    // by stop_requested()
  std::string checkpoint;  // the folder of the last one
  std::string json;        // everything measured, as written by --summary
};

// Throws an ebb::Error. What is whole in memory is saved before that, and the text says where; the
// last checkpoint is good whatever happens. What the observer throws ends the run likewise.
TrainSummary train(const TrainOptions& options, TrainObserver& observer);

// The plan as text: who needs how much where, what a step costs. Throws OutOfBudget if nothing
// fits. `machine` is one that need not be here: the name of one that Ebb knows, or the file of a
// profile; its memory is the limit where none is given. Where options.trace names a file, the
// predicted trace is written to it.
std::string explain_plan(const TrainOptions& options, const std::string& machine = "");

}  // namespace ebb
