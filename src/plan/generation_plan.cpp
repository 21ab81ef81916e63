#include "plan/generation_plan.h"

#include <stdexcept>

#include <fmt/format.h>

#include "plan/explain.h"
#include "plan/generation_program.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

// Over the arenas of a first one, where there is one.
Plan plan_pass(const Workload& work, const Limits& limits, const Profile& profile,
               const Plan* first = nullptr) {
  Plan plan{.limits = limits, .workload = work, .profile = profile};
  if (first == nullptr) {
    plan.program = build_generation(work);
    plan.layout = lay_out(plan.program);
  } else {
    plan.program = build_generation(work, &first->program);
    plan.layout = lay_out_beside(plan.program, first->program, first->layout);
    if (plan.layout.size != first->layout.size) {
      throw std::logic_error("a pass that needs more memory than one of more tokens");
    }
  }
  add_waits(plan.program, plan.layout);
  // The next token is known when the logits are here: runs follow each other and never overlap. All
  // else that the first task could wait for has ended by then.
  const auto last = static_cast<TaskId>(plan.program.tasks.size()) - 1;
  plan.program.tasks.front().waits = {{last, true}};
  plan.prediction = simulate(plan.program, profile);
  return plan;
}

std::string pass_table(const Plan& plan) {
  return fmt::format("  bound by {}\n{}", bound_by(plan), lane_table(plan, false));
}

}  // namespace

GenerationPlan plan_generation(const GenerationWork& work, const Limits& limits,
                               const Profile& profile) {
  GenerationPlan plan{.prompt_tokens = work.prompt_tokens,
                      .max_tokens = work.max_tokens,
                      .slices = work.slices,
                      .context = work.context,
                      .slice = plan_pass(work.slice, limits, profile),
                      .token = {}};
  plan.token = plan_pass(work.token, limits, profile, &plan.slice);
  plan.prompt_seconds = static_cast<double>(work.slices) * plan.slice.prediction.step_seconds;
  if (work.rest) {
    ++plan.slices;
    plan.prompt_seconds +=
        plan_pass(*work.rest, limits, profile, &plan.slice).prediction.step_seconds;
  }
  return plan;
}

std::string explain(const GenerationPlan& plan) {
  return fmt::format(
      "Plan: everything on the device, {} parameters\n  a prompt of {} tokens and up to {} more\n{}"
      "The prompt, in {} of up to {} tokens, is predicted to take {} ({:.0f} tokens/s) on {}.\n"
      "A slice in the middle of it takes {}:\n{}"
      "A token is predicted to take {} ({:.1f} tokens/s) with {} before it:\n{}",
      format_count(plan.slice.workload.parameters()), plan.prompt_tokens, plan.max_tokens,
      memory_table(plan.slice),
      plan.slices == 1 ? "one slice" : fmt::format("{} slices", plan.slices),
      plan.slice.workload.tokens, format_seconds(plan.prompt_seconds),
      static_cast<double>(plan.prompt_tokens) / plan.prompt_seconds, plan.slice.profile.name,
      format_seconds(plan.slice.prediction.step_seconds), pass_table(plan.slice),
      format_seconds(plan.token.prediction.step_seconds), plan.tokens_per_second(), plan.context,
      pass_table(plan.token));
}

List<Trace> predicted_traces(const GenerationPlan& plan) {
  List<Trace> traces;
  for (const auto& [part, run] : {std::pair{&plan.slice, "slice"}, {&plan.token, "token"}}) {
    traces.push_back(predicted_trace(*part));
    traces.back().run = run;
  }
  return traces;
}

}  // namespace ebb::plan
