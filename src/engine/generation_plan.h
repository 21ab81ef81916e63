// The plan of generation, of a model's own code and within limits.
#pragma once

#include <vector>

#include "engine/runtime.h"
#include "engine/workload.h"
#include "files/model/tokenizer.h"
#include "kernels/counting_ops.h"
#include "model/decoder.h"
#include "plan/generation_plan.h"

namespace ebb::engine {

// Slices and tokens that a trace keeps where one is asked for.
inline constexpr std::int64_t kTracedRuns = 8;

struct GeneratorSettings {
  model::Config config;
  DType dtype = DType::bf16;
  std::int64_t positions = 1;      // that the sequence can grow to
  std::int64_t prompt_tokens = 0;  // 0: not known, up to all of them
  plan::Limits limits;
  std::vector<plan::Extra> extras{};  // what the caller holds: tokenizer, chat template
  std::int64_t trace_runs = 0;        // the last ones, of slices and of tokens, that a trace keeps
};

// Throws OutOfBudget: the bytes by purpose on each tier, what is missing and what would help.
plan::GenerationPlan plan_generation(kernels::CountingOps& ops, const plan::Profile& profile,
                                     const GeneratorSettings& settings);
plan::GenerationPlan plan_generation(Runtime& runtime, const GeneratorSettings& settings);

// Bytes of host memory that a tokenizer holds, and that one rendering of its chat template may.
std::vector<plan::Extra> text_extras(const files::ModelTokenizer& tokenizer, Bytes rendering,
                                     std::int64_t vocabulary);

}  // namespace ebb::engine
