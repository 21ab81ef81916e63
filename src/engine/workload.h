// The numbers the planner works with, found by running the model's own code with ops that count and
// carvers that measure.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/counting_ops.h"
#include "kernels/gemm_tuner.h"
#include "model/decoder.h"
#include "plan/generation_plan.h"
#include "plan/workload.h"
#include "states/format.h"

namespace ebb::engine {

struct TrainingShape {
  std::int64_t accumulate = 1;
  DType gradient_type = DType::bf16;
  states::StateKind state;
  std::vector<plan::Extra> extras{};  // of the run, libraries left out
  Bytes task_bytes = 0;
};

plan::Workload training_workload(const model::Decoder&, const model::Parameters&,
                                 kernels::CountingOps&, const TrainingShape&);

// Batches whose loss is all that is asked for.
struct EvaluationShape {
  DType dtype = DType::bf16;
  std::vector<plan::Extra> extras{};  // libraries left out
  Bytes task_bytes = 0;
};

plan::Workload evaluation_workload(const model::Decoder&, const model::Parameters&,
                                   kernels::CountingOps&, const EvaluationShape&);

// Sequences that are generated at once.
struct GenerationShape {
  DType dtype = DType::bf16;
  std::int64_t sequences = 1;
  std::int64_t positions = 1;      // of prompt and answer, of each
  std::int64_t prompt_tokens = 0;  // 0: not known, up to all of them
  std::shared_ptr<const plan::Topology> topology = plan::device_and_host();
  std::vector<plan::Extra> extras{};  // libraries left out
  Bytes task_bytes = 0;
  // Where weights lie that are of several types; null: all are of `dtype`, at their places.
  const model::WeightLayout* layout = nullptr;
  // What the CPU's library wants where it computes blocks; null: it computes none.
  const kernels::WorkspaceNeeds* cpu = nullptr;

  std::int64_t prompt() const { return prompt_tokens > 0 ? prompt_tokens : positions; }
  // Bytes of one sequence in a block's cache, where a position has so many: each begins where an
  // object may.
  Bytes sequence_cache(Bytes row) const { return plan::align_up(positions * row); }
};

// With slices of so many tokens, the whole prompt at most. Decoder and parameters have the halves
// of layers apart.
plan::GenerationWork generation_work(const model::Decoder&, const model::Parameters&,
                                     kernels::CountingOps&, const GenerationShape&,
                                     std::int64_t slice);

// Describes a block's kind, name, parameters and weights; costs are left empty.
plan::Block describe_block(const model::ParameterBlock&, DType weights,
                           const model::BlockLayout* layout = nullptr);

// Each call under what bounds it.
plan::Cost cost_of(std::span<const kernels::CountingOps::Call>);

// The matrix products of a step, some more than once; addresses that nobody follows.
std::vector<kernels::Product> training_products(const model::Decoder&,
                                                const kernels::WorkspaceNeeds&);

// Those of a batch whose loss is all that is asked for.
std::vector<kernels::Product> evaluation_products(const model::Decoder&,
                                                  const kernels::WorkspaceNeeds&);

}  // namespace ebb::engine
