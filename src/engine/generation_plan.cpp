#include "engine/generation_plan.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/parameter_store.h"
#include "engine/planned_memory.h"
#include "engine/sampling.h"
#include "plan/explain.h"
#include "plan/refusal.h"

namespace ebb::engine {
namespace {

// A piece of a tensor as it is stored, as fp32 and as bf16.
constexpr Bytes kLoadingBytes = 10 * ParameterStore::kPiece;

plan::GenerationPlan plan_of(kernels::CountingOps& ops, const plan::Profile& profile,
                             const GeneratorSettings& s) {
  GenerationShape shape{.dtype = s.dtype,
                        .positions = s.positions,
                        .prompt_tokens = s.prompt_tokens,
                        .extras = s.extras,
                        .task_bytes = task_bytes(s.trace_runs)};
  // Weights come through host memory a piece at a time.
  shape.extras.push_back({plan::Tier::host, "loading", kLoadingBytes});
  const plan::GenerationWork work = generation_work(model::Decoder(s.config, s.dtype, s.dtype, {}),
                                                    model::parameters_of(s.config), ops, shape);
  return plan::plan_generation(
      work, s.limits, s.dtype == DType::f32 ? plan::with_variant(profile, "fp32") : profile);
}

// How many positions the device has room for, by what each of them costs there.
std::int64_t positions_that_fit(const plan::GenerationPlan& plan, std::int64_t positions) {
  const plan::Workload& work = plan.slice.workload;
  Bytes all = work.tables, alignment = plan::kAlignment;
  for (const plan::Block& block : work.blocks) {
    all += block.cache;
    alignment += plan::kAlignment;
  }
  const Bytes each = all / positions;
  const Bytes missing = plan.peak(plan::Tier::device) - plan.slice.limits[plan::Tier::device];
  return each == 0 ? 0 : positions - std::max<Bytes>(0, missing + alignment) / each - 1;
}

// Each was tried.
std::string what_would_help(const plan::GenerationPlan& refused, kernels::CountingOps& ops,
                            const plan::Profile& profile, const GeneratorSettings& s) {
  std::string text = "What would help:\n";
  const auto try_with = [&](const GeneratorSettings& other, const std::string& remedy) {
    if (fits(plan_of(ops, profile, other).slice)) text += "  - " + remedy + "\n";
  };
  const std::int64_t positions = positions_that_fit(refused, s.positions);
  const std::int64_t answer = s.positions - s.prompt_tokens;
  if (s.prompt_tokens > 0 && positions > s.prompt_tokens) {
    GeneratorSettings other = s;
    other.positions = positions;
    try_with(other, fmt::format("--max-tokens {}", positions - s.prompt_tokens));
  }
  if (s.prompt_tokens > 0 && positions > answer) {
    GeneratorSettings other = s;
    other.positions = positions;
    other.prompt_tokens = positions - answer;
    try_with(other, fmt::format("a prompt of {} tokens", other.prompt_tokens));
  }
  if (s.dtype == DType::f32) {
    GeneratorSettings other = s;
    other.dtype = DType::bf16;
    try_with(other, "--dtype bf16");
  }
  return text + "  - a higher limit, or a smaller model";
}

}  // namespace

plan::GenerationPlan plan_generation(kernels::CountingOps& ops, const plan::Profile& profile,
                                     const GeneratorSettings& s) {
  plan::GenerationPlan plan = plan_of(ops, profile, s);
  if (fits(plan.slice)) return plan;
  throw OutOfBudget(plan::explain_missing(plan.slice) + what_would_help(plan, ops, profile, s),
                    plan::shortfalls_of(plan.slice));
}

plan::GenerationPlan plan_generation(Runtime& runtime, const GeneratorSettings& s) {
  kernels::CountingOps ops(runtime.device_model());
  return plan_generation(ops, runtime.profile(), s);
}

std::vector<plan::Extra> text_extras(const files::ModelTokenizer& tokenizer, Bytes rendering,
                                     std::int64_t vocabulary) {
  std::vector<plan::Extra> extras = {
      {plan::Tier::host, "tokenizer", tokenizer.memory_bytes()},
      {plan::Tier::host, "sampling", Sampler::memory_bytes(vocabulary)}};
  if (rendering > 0) extras.push_back({plan::Tier::host, "chat template", rendering});
  return extras;
}

}  // namespace ebb::engine
