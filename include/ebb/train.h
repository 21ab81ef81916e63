// Training a model under memory limits, and asking beforehand what it would take.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ebb/types.h"
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

// The file of TrainOptions::settings in a run's folder. The command line's are TOML, a key a flag.
inline constexpr const char* kSettingsName = "settings.toml";

// What a run's log is written as, besides log.jsonl. Its words stand in the table of ebb/types.h.
enum class LogFormat : std::uint8_t { csv, tensorboard };

// What to train, with what, within what. Fields are named as the command line's flags.
struct TrainOptions {
  std::string model;              // as Model::open takes it (ebb/model.h)
  std::vector<std::string> data;  // text, JSONL, CSV and token files, compressed or not, or folders
  std::string out;                // the run's folder

  // What is made of the data.
  std::string tokenizer;  // a folder with tokenizer.json, or bytes; none: the model's own
  RowPacking packing = RowPacking::automatic;
  LossOn loss = LossOn::completion;
  OnBadData on_bad_data = OnBadData::stop;
  std::string text_column;      // of JSONL and CSV: what holds the text; empty: as Ebb knows it
  std::string messages_column;  // what holds the messages
  bool accept_changed_data = false;  // go on though the data is not what the checkpoint says
  std::vector<std::string> eval_data;
  std::optional<double> eval_share;  // of the data's items, held out from training
  std::int64_t eval_batches = 16;    // at most, each time
  std::int64_t eval_every = 0;       // steps; 0: at the end only

  // Limits; none means what the machine has left when the trainer is made.
  std::optional<Bytes> device_memory;
  std::optional<Bytes> host_memory;
  // Folders for what host memory cannot hold, best one for each drive; without bytes most of what
  // is free there. None: no disk is used.
  std::vector<DiskFolder> disk;
  std::optional<Bytes> disk_endurance;  // what the drives may be written in their life

  // The batch of a step: accumulate micro-batches of micro_batch sequences each, on every rank.
  std::int64_t sequence = 512;
  std::int64_t micro_batch = 4;
  std::int64_t accumulate = 1;
  // Groups of a step's micro-batches: gradients are added up within a group, then the groups' sums.
  // None: each micro-batch is one. A divisor of the micro-batches of all ranks.
  std::optional<std::int64_t> gradient_groups;

  // The optimizer. What is not given is the rule's own; what a rule does not have is refused.
  OptimizerRule optimizer = OptimizerRule::adamw;
  double learning_rate = 3e-4;
  double clip = 1.0;  // of the global gradient norm; 0 for none
  std::optional<double> weight_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::optional<double> momentum;
  bool nesterov = false;
  StateFormat state_format = StateFormat::exact;
  LearningRateSchedule schedule = LearningRateSchedule::cosine;
  std::int64_t warmup = 0;
  std::optional<double> final_share;  // of the learning rate at the end
  double decay_share = 0.2;           // wsd: the share of the steps that decay

  // Where things live; what is automatic is left to the plan.
  StatePlacement states = StatePlacement::automatic;
  std::optional<double> offload_fraction;
  std::optional<double> host_fraction;
  Blocks weights;        // whose weights stream; embedding and head count as one each
  Blocks gradient_sums;  // from the last, whose gradients are gathered off the device
  VocabularyUse vocabulary = VocabularyUse::automatic;
  Blocks recompute;    // that run forward twice instead of keeping activations
  Blocks save_cheap;   // from the last, that keep even what is cheap to make again
  Blocks activations;  // whose inputs leave the device until the backward pass
  // Of what leaves the device: what is on a disk. Not given: as much as host memory cannot hold.
  std::optional<double> disk_fraction;  // states, as a share of all parameters
  Blocks disk_weights;                  // of streamed blocks
  Blocks disk_sums;                     // of blocks, from the last
  Blocks disk_activations;              // of blocks whose inputs leave the device
  std::optional<std::int64_t> chunk_parameters;
  std::optional<std::int64_t> depth;  // transfers of one kind that may be on their way at once

  // The run.
  std::int64_t steps = 100;
  std::uint64_t seed = 0;
  FloatType dtype = FloatType::bf16;           // weights and activations; automatic is bf16
  FloatType gradients = FloatType::automatic;  // as the weights
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;      // 0: as many as the machine lets us use
  std::string profile;  // a file of `ebb probe`; empty: the one it kept, if it fits
  SaveEvery save_every{};
  // A last save that fails (a full disk) is tried again for so long before its error is told.
  double save_patience_seconds = 600;
  int keep = 2;  // checkpoints; 0: nothing is saved
  bool resume = false;
  // Kept in the run's folder as kSettingsName, for whoever goes on with the run; empty: nothing is.
  std::string settings;
  // Files that the caller writes: like out and trace no data where a folder of data holds them.
  std::vector<std::string> outputs;
  std::string trace;             // a file for when which task ran; empty: none
  std::int64_t trace_steps = 8;  // that it shows: the last ones
  bool verify = true;            // the checksums of a model that is a checkpoint, before it is used
  double rank_timeout_seconds = 60;  // a rank that gives no sign for so long ends the run
  bool summarize = true;  // make TrainSummary::json; takes a pass over all weights and states
  std::vector<LogFormat> log{};  // what the log is written as, besides log.jsonl
};

// The most that a run had in use of a tier so far, and what it may use.
struct TierMemory {
  std::string tier;  // "device", "host", "disk"
  Bytes most = 0;
  Bytes limit = 0;
};

struct StepReport {
  std::int64_t step = 0;  // from 1
  std::int64_t steps = 0;
  double loss = 0;  // mean over the step's tokens
  double norm = 0;  // of the gradient, before clipping
  double learning_rate = 0;
  double tokens_per_second = 0;
  // Where the device's speed of matrix products was measured (`ebb probe`): the time that the
  // model's products and attention would take at that speed, as a share of the step's.
  std::optional<double> utilization;
  double seconds_left = 0;           // a prediction from the steps so far
  Bytes device_bytes = 0;            // the most that was in use so far
  std::vector<TierMemory> memory{};  // likewise, of every tier
};

// Told what happens, on the thread that called train().
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void note(const std::string& text) = 0;  // a line for people
  // What only some people want to know: the whole plan, where its speeds are from.
  virtual void detail(const std::string& text) { note(text); }
  // The first step is next: from now on there is something to save.
  virtual void started() {}
  virtual void step(const StepReport& report) = 0;
  // Asked after every step and while it validates; true ends the run after a save.
  virtual bool stop_requested() { return false; }
};

struct TrainSummary {
  std::int64_t steps = 0;  // reached
  bool stopped = false;    // by stop_requested() or a stop_token
  std::string checkpoint;  // the folder of the last one
  std::string json;        // everything measured, as written by --summary
};

// Trainer (ebb/trainer.h) as one call. Throws an ebb::Error. What is whole in memory is saved
// before that, and the text says where; the last checkpoint is good whatever happens. What the
// observer throws ends the run likewise. `stop` ends it as stop_requested() does; before the first
// step, when there is nothing to save, it throws Cancelled.
//
// In processes that a launcher started together (mpirun, srun) all ranks call it, with the same
// options, and train one model; rank 0's observer alone is told.
TrainSummary train(const TrainOptions& options, TrainObserver& observer, std::stop_token stop = {});

// The number of this process among those that a launcher started together; 0 where it started
// alone.
int launched_rank();

// The plan (ebb/plan.h) as text: what needs how much where, what a step costs. Throws OutOfBudget
// if nothing fits. `machine` is one that need not be here: the name of one that Ebb knows, or the
// file of a profile; its memory is the limit where none is given. Where options.trace names a file,
// the predicted trace is written to it.
std::string explain_plan(const TrainOptions& options, const std::string& machine = "");

}  // namespace ebb
