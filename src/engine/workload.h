// The numbers the planner works with, found by running the model's own code with ops that count and
// carvers that measure.
#pragma once

#include <span>
#include <vector>

#include "kernels/counting_ops.h"
#include "kernels/product_search.h"
#include "model/decoder.h"
#include "optim/format.h"
#include "plan/workload.h"

namespace ebb::engine {

struct TrainingShape {
  std::int64_t accumulate = 1;
  DType gradient_type = DType::bf16;
  optim::StateKind state;
  std::vector<plan::Extra> extras{};  // of the run, libraries left out
  Bytes task_bytes = 0;
};

plan::Workload training_workload(const model::Decoder&, const model::Parameters&,
                                 kernels::CountingOps&, const TrainingShape&);

// What it is, its name, its parameters and its weights.
plan::Block describe_block(const model::ParameterBlock&, DType weights);

// Each call under what bounds it.
plan::Cost cost_of(std::span<const kernels::CountingOps::Call>);

// The matrix products of a step, some more than once; addresses that nobody follows.
std::vector<kernels::Product> training_products(const model::Decoder&,
                                                const kernels::WorkspaceNeeds&);

}  // namespace ebb::engine
