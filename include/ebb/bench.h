// How fast this machine trains and generates, and does what both are made of, beside what it could
// do at most.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/types.h"
#include "ebb/units.h"

namespace ebb {

struct OptimizerBenchOptions {
  std::vector<OptimizerRule> rules;  // empty: all of them
  std::vector<StateFormat> formats;  // empty: all that a rule has
  std::vector<int> threads;          // 0 is all that may be used; empty: 1 and all
  std::int64_t parameters = 0;       // 0: far more than caches hold
  double seconds = 2;                // spent on each row of the result, or more
};

struct BenchProgress {
  std::string now;          // what is being measured
  bool result = false;      // `now` is what was measured, and worth keeping
  double done = 0;          // the share of the work that is behind, 0 to 1
  double seconds_left = 0;  // a prediction from what is behind
};

struct BenchResult {
  std::string text;  // for people
  std::string json;  // for programs: one object
  // What the bench found to be wrong, as a sentence; empty where all is well. The numbers stand
  // beside it.
  std::string failure = {};
};

// The optimizer's updates on the CPU: every rule and format. Their ceiling is the fastest of
// several streaming passes over the same planes with as many threads, measured in turns with them.
// Throws ConfigError for what is not to be had, OutOfBudget where memory does not suffice.
// `progress` is called now and then, on the calling thread.
BenchResult bench_optimizer(const OptimizerBenchOptions& options,
                            const std::function<void(const BenchProgress&)>& progress);

// What a disk tier reads and writes of a run, alone and at once. `disk` as of ProbeOptions.
BenchResult bench_disk(const std::vector<DiskFolder>& disk,
                       const std::function<void(const BenchProgress&)>& progress);

// Rows of training: every limit with every format and number of micro-batches. Where nothing is
// said, rows that suit the device: the table of Ebb's own goals on a GPU, a small one else.
struct TrainBenchOptions {
  std::string model;                     // as of TrainOptions; its weights are random ones
  std::int64_t sequence = 0;             // tokens; 0: what suits the device
  std::int64_t micro_batch = 0;          // sequences; 0: the same
  std::vector<std::int64_t> accumulate;  // micro-batches a step; empty: the same
  // Limits of device memory. "resident": states stay on the device; "-90%": as much as that takes
  // less 90% of the states' bytes; "off": every state leaves the device, whatever room there is;
  // "all": what the device has; or bytes, such as "16GiB". Empty: all of the first three and -50%.
  std::vector<std::string> limits;
  std::vector<StateFormat> state_formats;  // empty: exact
  std::optional<BenchTable> table;         // rows where none of the above is given; none: states
  bool curve = false;              // other defaults: four limits and two numbers of micro-batches
  std::vector<int> only;           // rows by their number, from 1; empty: all
  bool against_hand_made = false;  // also time hand-made plans of every row
  std::int64_t warm_up = 2;        // steps before those that are measured
  std::int64_t steps = 5;          // that are measured
  std::optional<Bytes> host_memory;
  std::vector<DiskFolder> disk;  // as of TrainOptions
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;
  std::string profile;  // a file of `ebb probe`; empty: the kept one, or measured first
};

// Trains each row on made-up tokens from the same start. A row that does not fit says so and the
// others go on. Rows that differ in placement alone must end with the same weights: a failure names
// those that do not. Throws ConfigError for what is not to be had.
BenchResult bench_training(const TrainBenchOptions& options,
                           const std::function<void(const BenchProgress&)>& progress);

// Tests of generation: each of them at every depth and for every number of sequences, with every
// model, type, number of threads and limit that is given.
struct GenerateBenchOptions {
  struct PromptAndTokens {
    std::int64_t prompt = 0;
    std::int64_t tokens = 0;
  };

  // As of GenerateOptions, or presets, whose weights are random. Empty: a preset that suits the
  // device.
  std::vector<std::string> models;
  // Where none of these three is given: a prompt of 512 tokens, and 128 tokens.
  std::vector<std::int64_t> prompt_tokens;  // read at once
  std::vector<std::int64_t> tokens;         // one after the other
  std::vector<PromptAndTokens> both;        // a prompt and the tokens behind it
  std::vector<std::int64_t> depths;         // tokens that the sequence has before a test; empty: 0
  std::vector<std::int64_t> batches;        // sequences at once; empty: 1
  std::int64_t repetitions = 5;             // of each test, after one that does not count
  std::vector<FloatType> dtypes;            // empty: as stored
  std::vector<int> threads;                 // 0 is all that may be used; empty: all
  std::vector<Bytes> device_memory;         // limits; empty: what the machine has
  std::vector<Bytes> host_memory;
  DeviceKind device = DeviceKind::automatic;
  double ceiling_seconds = 1;      // spent on each rate that ceilings are made of, or more
  std::string profile;             // a file of `ebb probe`; empty: the kept one, or measured first
  std::string commit = "unknown";  // that the program was built from, for the result
};

// Times the model alone, on made-up tokens: no tokenizer and no sampling. A test that does not fit
// says so and the others go on. Throws ConfigError, before anything is measured, for what is not
// to be had or is longer than the model knows positions.
BenchResult bench_generation(const GenerateBenchOptions& options,
                             const std::function<void(const BenchProgress&)>& progress);

}  // namespace ebb
