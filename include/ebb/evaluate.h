// The loss of a model on data.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ebb/types.h"
#include "ebb/units.h"

namespace ebb {

// Of which model, on what, within what. Fields are named as the command line's flags.
struct EvaluateOptions {
  std::string
      model;  // a model's folder, a GGUF file, a run's folder (its last checkpoint), a preset
  std::vector<std::string> data;  // text, JSONL and token files, or folders of them

  // What is made of the data, as training makes it.
  std::string tokenizer;  // a folder with tokenizer.json, or bytes; none: the model's own
  RowPacking packing = RowPacking::automatic;
  LossOn loss = LossOn::completion;
  OnBadData on_bad_data = OnBadData::stop;
  std::string text_column;      // of JSONL and CSV: what holds the text; empty: as Ebb knows it
  std::string messages_column;  // what holds the messages

  // A batch: micro_batch rows of `sequence` tokens. The loss depends on both.
  std::int64_t sequence = 512;
  std::int64_t micro_batch = 4;
  // Where to stop before the end of the data, after whole batches; the first one reached counts.
  std::optional<std::int64_t> batches;
  std::optional<std::int64_t> max_tokens;

  // Limits; none means what the machine has.
  std::optional<Bytes> device_memory;
  std::optional<Bytes> host_memory;
  std::vector<DiskFolder> disk;  // for weights that host memory cannot hold

  // Where weights live; what is automatic is left to the plan.
  Blocks weights;  // whose weights stream; embedding and head count as one each
  VocabularyUse vocabulary = VocabularyUse::automatic;
  Blocks disk_weights;  // of streamed blocks, those on the disk
  std::optional<std::int64_t> chunk_parameters;
  std::optional<std::int64_t> depth;

  FloatType dtype = FloatType::automatic;  // as stored
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;      // 0: as many as the machine lets us use
  std::string profile;  // a file of `ebb probe`; empty: the one it kept, if it fits
  std::string trace;    // a file for the lanes of the last batches (docs/trace.md); empty: none
  bool verify = true;   // a checkpoint's checksums, before its weights are used
};

// After a batch.
struct EvaluateReport {
  std::int64_t batches = 0;      // so far
  std::int64_t loss_tokens = 0;  // targets that the loss is the mean over, so far
  double loss = 0;
  double tokens_per_second = 0;
  double share = 0;         // of the work that is done
  double seconds_left = 0;  // a prediction from the batches so far
};

// Told what happens, on the thread that called evaluate().
class EvaluateObserver {
 public:
  virtual ~EvaluateObserver() = default;
  virtual void note(const std::string& text) = 0;  // a line for people
  virtual void batch(const EvaluateReport& report) = 0;
};

struct EvaluateSummary {
  double loss = 0;  // mean over loss_tokens, in nats
  double perplexity = 0;
  // The loss in bits, by byte of the targets' text, of which a token that ends a text has none;
  // nothing where files of tokens are among the data.
  std::optional<double> bits_per_byte;
  std::int64_t loss_tokens = 0;  // targets that carry loss
  std::int64_t tokens = 0;       // of all rows, padding included
  std::int64_t batches = 0;
  bool whole = false;    // all of the data was read
  bool stopped = false;  // by the stop_token
  double seconds = 0;    // of the batches alone
  double tokens_per_second = 0;
  Bytes device_peak = 0;
  Bytes device_limit = 0;
  Bytes host_peak = 0;
  Bytes host_limit = 0;
  std::string json;  // all of it
};

// The mean loss of the model on the data: every item once, in the order of the files. It has the
// bits of a training run's validation loss on the same batches, wherever weights live and whatever
// the limits and the number of threads. Throws an ebb::Error: OutOfBudget, before anything is
// loaded, where it does not fit. `stop` ends it after the batches under way, and the summary is of
// those; before the first batch it throws Cancelled.
EvaluateSummary evaluate(const EvaluateOptions& options, EvaluateObserver& observer,
                         std::stop_token stop = {});

// Where every byte would go and what a batch would take, on this machine or on one that need not be
// here (a name that Ebb knows, or a profile's file). `options.data` is not read. With
// `options.trace`, writes the predicted lanes there. Throws OutOfBudget where it does not fit.
std::string explain_evaluation(const EvaluateOptions& options, const std::string& machine = "");

}  // namespace ebb
