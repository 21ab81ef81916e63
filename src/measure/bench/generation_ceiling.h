// The ceiling of a generation test. Tokens one after the other: their weights and the caches before
// them, read once for each (of several sequences the weights once for all), at the read rate of the
// memory that holds them. A prompt: the
// operations of the model's products and attention, at the rate of large matrix products.
#pragma once

#include <optional>

#include "base/dtype.h"
#include "engine/runtime.h"
#include "measure/bench/generation_tests.h"
#include "measure/bench/reading.h"
#include "model/config.h"
#include "plan/generation_plan.h"

namespace ebb::measure {

// The least that a test has to do.
struct GenerationCost {
  double flops = 0;                     // of the prompt; a multiply-add is two
  plan::PerTier<double> read_bytes{};   // of all tokens, from where the plan has them
  plan::PerTier<Bytes> weight_bytes{};  // where the plan has the weights
};

// Of a prompt's last token alone the logits are wanted, and masked attention is none. A model whose
// head is not tied reads a row of its embedding for a token: that is left out.
GenerationCost generation_cost(const model::Config& config, const plan::GenerationPlan& plan,
                               std::int64_t positions, const GenerationTest& test);

// What a runtime reaches where it does nothing else.
struct GenerationRates {
  ReadRate host{};
  ReadRate device{};
  double matrix_flops = 0;  // a second, with operands of the type that the model is computed in
};

// Seconds; nothing where the plan puts what a token reads on a tier whose rate nobody measured.
std::optional<double> ceiling_seconds(const GenerationCost& cost, const GenerationRates& rates);

}  // namespace ebb::measure
