// A model ready to generate: weights and key-value caches where its plan has them, and as many
// sequences as these are for, each with a length of its own.
//
// Every run of the model is one of two programs: a slice of one sequence's tokens, or a token of
// each of some sequences. On the cpu device a sequence's logits go by its own tokens and by the
// slices that they came in alone: which others are in a run, or have been, changes no bit.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/generation_plan.h"
#include "engine/planned_memory.h"
#include "engine/runtime.h"
#include "exec/executor.h"
#include "files/model/source.h"
#include "model/decoder.h"

namespace ebb::engine {

class Generator {
 public:
  // Plans (or throws OutOfBudget with what is missing), takes the memory and loads the weights.
  Generator(Runtime& runtime, io::FileSystem& files, const files::ModelSource& source,
            const GeneratorSettings& settings);

  // Takes a sequence further by these tokens, in slices, and returns the logits of what comes next;
  // valid until the next call.
  std::span<const float> advance(std::span<const std::int32_t> tokens, int sequence = 0);
  struct Token {
    int sequence = 0;
    std::int32_t id = 0;
  };
  // Takes different sequences further at once, each by one token; a row of logits each, in that
  // order.
  std::span<const float> advance_each(std::span<const Token> tokens);

  // What follows only queues runs, two at most: a call that would be the third blocks until the
  // first has ended. What is thrown may come from any run before.
  //
  // The chooser says how a sequence goes on. It is called on a thread of the CPU's lane when the
  // run's logits are there, for one sequence after the other, and must neither throw nor call this
  // object; it is exchanged while nothing is queued. So the next run can be queued before the
  // logits of the one before were seen.
  using Chooser = std::function<std::int32_t(int sequence, std::span<const float> logits)>;
  void set_chooser(Chooser chooser) { chooser_ = std::move(chooser); }
  // Of as many tokens as a slice has, at most. With `choose` the chooser is asked behind the last.
  void queue(std::span<const std::int32_t> tokens, int sequence, bool choose);
  void queue_each(std::span<const Token> tokens, bool choose);
  // For each of these sequences the token that was chosen for it last; all go on to be asked for.
  void queue_chosen(std::span<const int> sequences);
  // Until all runs but the one that was queued last have ended.
  void wait_for_others();
  void drain() { executor_.drain(); }
  // Drains, when nobody wants what is queued: tasks that have not begun compute nothing where they
  // run one after the other (on the CPU). Sequences that were queued must be reset, or kept as long
  // as they were before.
  void abandon();

  // Tokens of a sequence, those that are queued included.
  std::int64_t length(int sequence = 0) const { return lengths_[sequence]; }
  void reset(int sequence = 0) { lengths_[sequence] = 0; }  // the next tokens begin a new one
  // The next tokens go on behind the first `length` of the sequence, which has at least as many.
  // What they compute is what they would have computed had nothing come between.
  void keep(std::int64_t length, int sequence = 0);
  // The sequence `to` becomes the first `length` tokens of another, which has at least as many.
  void copy(int from, int to, std::int64_t length);
  std::int64_t positions() const { return positions_; }  // of each
  int sequences() const { return static_cast<int>(lengths_.size()); }
  const plan::GenerationPlan& plan() const { return plan_; }
  const memory::Ledger& ledger(plan::Tier tier) const { return memory_.ledger(tier); }
  // The most bytes in use so far: those that tasks said they touched, and what was reserved beside
  // the arenas.
  Bytes measured_peak(plan::Tier tier = plan::Tier::device) const {
    return memory_.measured_peak(tier);
  }
  // When tasks ran in the last settings.trace_runs slices and tokens; refers to the plan.
  std::vector<plan::Trace> trace() const;

 private:
  void load(io::FileSystem& files, const files::ModelSource& source);
  Bytes weight_bytes(int block) const;
  model::BlockWeights weights(exec::TaskRun& run, plan::Role role, int block) const;

  // What a run was queued with.
  struct Run {
    List<int> numbers{};  // of its sequences
    List<model::SequenceTokens> sequences{};
    List<std::int32_t> ids{};  // of all its tokens; empty: those that were chosen
    bool choose = false;
    std::int64_t tokens = 0;
  };
  // Runs of a program whose tasks may still look them up, by their step.
  static constexpr std::size_t kRing = 3;
  Run& next_run(std::size_t program);
  void add(Run& run, int sequence, std::int64_t tokens);
  void issue(std::size_t program, const Run& run);
  std::span<const float> logits_of(std::int64_t rows);

  // A task of a run.
  struct Call {
    exec::TaskRun& task;
    const plan::Workload& work;
    const Run& run;
  };
  void run_task(exec::TaskRun& run, std::size_t program);
  void take_tokens(const Call& call) const;
  void choose_tokens(const Call& call);
  // With the ops of the processor that the task's lane is for.
  void compute(const Call& call);
  void decode(const Call& call, kernels::ModelOps& ops);
  List<model::SequenceTokens> with_caches(const Call& call) const;

  Runtime& runtime_;
  DType dtype_;
  std::int64_t positions_;
  std::int64_t trace_runs_;
  model::Parameters parameters_;
  model::Decoder decoder_;
  std::optional<model::WeightLayout> layout_;
  files::StoredTypes kept_;
  plan::GenerationPlan plan_;
  PlannedMemory memory_;
  List<std::int64_t> lengths_;
  Chooser chooser_;
  List<std::int32_t> chosen_;  // by sequence; of the CPU's lane
  std::array<std::array<Run, kRing>, 2> runs_{};
  exec::Arguments arguments_;
  std::size_t last_program_ = 0;
  bool overlaps_ = false;  // the run queued last, with one of the same program before it
  std::atomic<bool> abandoned_{false};
  exec::Executor executor_;  // last: its lanes end before what their tasks use
};

}  // namespace ebb::engine
