// A model ready to generate: weights and key-value cache where its plan has them, one sequence.
#pragma once

#include <cstdint>
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

  // Takes the sequence further by these tokens and returns the logits of what comes next; valid
  // until the next call.
  std::span<const float> advance(std::span<const std::int32_t> tokens);

  std::int64_t length() const { return length_; }
  void reset() { length_ = 0; }  // the next tokens begin a new sequence
  // The next tokens go on behind the first `length` of the sequence, which has at least as many.
  // What they compute is what they would have computed had nothing come between.
  void keep(std::int64_t length);
  std::int64_t positions() const { return positions_; }
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
  // A task's memory; its ops are those of the processor that its lane is for.
  void run_task(exec::TaskRun& run, const plan::Workload& work);
  Bytes weight_bytes(int block) const;
  model::BlockWeights weights(exec::TaskRun& run, plan::Role role, int block) const;
  void decode(exec::TaskRun& run, const plan::Workload& work, kernels::ModelOps& ops);

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
  exec::Executor executor_;
  std::int64_t length_ = 0;
  std::int64_t count_ = 0;  // tokens of the call under way
};

}  // namespace ebb::engine
