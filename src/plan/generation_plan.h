// The plan of generation: a program for a slice of a prompt and one for a token of each sequence,
// over the same memory, and what both are predicted to take. One way to plan: each of the two is a
// Plan, with the tables, the simulation and the trace of any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/list.h"
#include "plan/candidate.h"
#include "plan/generation_choices.h"
#include "plan/trace.h"

namespace ebb::plan {

// What there is to do, with slices of some length. All workloads have the same memory between runs.
struct GenerationWork {
  std::int64_t sequences = 1;      // at once
  std::int64_t prompt_tokens = 1;  // of each
  std::int64_t max_tokens = 1;
  Workload slice{};                // of the prompt: a whole one, in the middle of it
  std::int64_t slices = 1;         // whole ones
  std::optional<Workload> rest{};  // the tokens behind them
  Workload token{};                // of every sequence, in the middle of those to be generated
  std::int64_t context = 0;        // tokens before that one
};

struct GenerationPlan {
  std::int64_t sequences = 1;
  std::int64_t prompt_tokens = 1;
  std::int64_t max_tokens = 1;
  std::int64_t slices = 1;   // all of them
  std::int64_t context = 0;  // of the token
  GenerationChoices choices{};
  Plan slice;  // its memory is the token's, too
  Plan token;
  double prompt_seconds = 0;  // predicted, of one whole prompt

  Bytes peak(Tier tier) const { return slice.peak(tier); }
  // Predicted, of tokens one after the other, of all sequences together.
  double tokens_per_second() const {
    return static_cast<double>(sequences) / token.prediction.step_seconds;
  }
  // Predicted, of all prompts and so many tokens of each sequence.
  double seconds(std::int64_t tokens) const {
    return static_cast<double>(sequences) * prompt_seconds +
           static_cast<double>(tokens) * token.prediction.step_seconds;
  }
};

// Whether it fits the limits or not: fits(plan.slice) tells.
GenerationPlan plan_generation(const GenerationWork&, const GenerationChoices&, const Limits&,
                               const Profile&);
// The same in two steps: the memory, which says whether it fits, and then what it would take.
GenerationPlan lay_out_generation(const GenerationWork&, const GenerationChoices&, const Limits&,
                                  const Profile&);
void predict(GenerationPlan&, const GenerationWork&);

// Where every byte goes and every block is computed, what the prompt and a token take, and what
// bounds them.
std::string explain(const GenerationPlan&);

// Traces of the slice and of the token, as `ebb plan` expects them. The plan must outlive them.
List<Trace> predicted_traces(const GenerationPlan&);

}  // namespace ebb::plan
