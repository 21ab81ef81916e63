#include "plan/generation_plan.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/explain.h"
#include "plan/generation_program.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

Plan plan_of(const Workload& work, const Limits& limits, const Profile& profile) {
  return {.limits = limits, .workload = work, .profile = profile};
}

void predict(Plan& plan) {
  add_waits(plan.program, plan.layout);
  plan.prediction = simulate(plan.program, plan.profile);
}

// Up to where a program's objects lie on a tier.
Bytes extent(const Plan& plan, Tier tier) {
  Bytes end = 0;
  for (std::size_t i = 0; i < plan.program.objects.size(); ++i) {
    const Object& object = plan.program.objects[i];
    if (object.tier == tier) end = std::max(end, plan.layout.offsets[i] + object.bytes);
  }
  return end;
}

// Both programs over one memory, which is as large as the one that needs more of a tier wants it: a
// long slice, or a token of many sequences.
void lay_out_both(Plan& slice, Plan& token) {
  slice.layout = lay_out(slice.program);
  // What is missing is found one object at a time. It is added at the arena's end, where the hole
  // may be smaller than the largest: then steps grow.
  const std::size_t small_steps = token.program.objects.size();
  const auto tiers = slice.program.topology->all_tiers();
  PerTier<Bytes> step{};
  for (std::size_t tries = 0; tries <= small_steps + 64; ++tries) {
    token.layout = lay_out_beside(token.program, slice.program, slice.layout);
    if (token.layout.size == slice.layout.size) {
      if (tries <= small_steps) return;
      for (const Tier tier : tiers) {
        const Bytes end = std::max(extent(slice, tier), extent(token, tier));
        slice.layout.size[tier] = token.layout.size[tier] = std::min(slice.layout.size[tier], end);
      }
      return;
    }
    for (const Tier tier : tiers) {
      const Bytes missing = token.layout.size[tier] - slice.layout.size[tier];
      step[tier] = tries < small_steps ? missing : std::max(missing, 2 * step[tier]);
      if (missing > 0) slice.layout.size[tier] += step[tier];
    }
  }
  throw std::logic_error("a token's program that finds no place");
}

// What the CPU's libraries take, where it computes blocks, and the host memory of both programs.
void count_extras(Plan& slice, const Plan& token) {
  const bool by_cpu =
      slice.program.persistent.host_scratch >= 0 || slice.program.persistent.host_tables >= 0;
  Workload& work = slice.workload;
  if (by_cpu) work.extras.push_back({Tier::host, "libraries", work.host_libraries});
  const Bytes counted = beside_arena(slice.program, work, Tier::host) - work.extra(Tier::host);
  const auto tasks = slice.program.tasks.count() + token.program.tasks.count();
  const Bytes missing = work.task_bytes * tasks - counted;
  if (missing > 0) work.extras.push_back({Tier::host, std::string(kPlanExtra), missing});
}

}  // namespace

GenerationPlan lay_out_generation(const GenerationWork& work, const GenerationChoices& choices,
                                  const Limits& limits, const Profile& profile) {
  GenerationPlan plan{.sequences = work.sequences,
                      .prompt_tokens = work.prompt_tokens,
                      .max_tokens = work.max_tokens,
                      .slices = work.slices,
                      .context = work.context,
                      .choices = choices,
                      .slice = plan_of(work.slice, limits, profile),
                      .token = plan_of(work.token, limits, profile)};
  plan.choices.slice = work.slice.tokens;
  plan.slice.program = build_generation(work.slice, plan.choices, Phase::prompt);
  plan.token.program =
      build_generation(work.token, plan.choices, Phase::token, &plan.slice.program);
  lay_out_both(plan.slice, plan.token);
  count_extras(plan.slice, plan.token);
  return plan;
}

void predict(GenerationPlan& plan, const GenerationWork& work) {
  predict(plan.slice);
  predict(plan.token);
  plan.prompt_seconds = static_cast<double>(work.slices) * plan.slice.prediction.step_seconds;
  if (!work.rest) return;
  ++plan.slices;
  // For its time alone: it runs as a slice that is not full.
  Plan rest = plan_of(*work.rest, plan.slice.limits, plan.slice.profile);
  rest.program = build_generation(*work.rest, plan.choices, Phase::prompt);
  rest.layout = lay_out(rest.program);
  predict(rest);
  plan.prompt_seconds += rest.prediction.step_seconds;
}

namespace {

std::string pass_table(const Plan& plan) {
  return fmt::format("  bound by {}\n{}", bound_by(plan), lane_table(plan, false));
}

// "3 layers: attention on the device, MLP on the host; a prompt's on the device, a token's by the
// CPU"
std::string places_of(const GenerationPlan& plan) {
  const Workload& work = plan.slice.workload;
  const List<BlockPlace> places = place_blocks(work, plan.choices);
  const auto tier = [&](Tier of) { return (*work.topology)[of].name; };
  const auto by = [](Processor of) { return of == Processor::cpu ? "the CPU" : "the device"; };
  const auto line = [&](const BlockPlace& place) {
    std::string text =
        fmt::format("weights on the {}, computed by {}", tier(place.home), by(place.prompt));
    if (place.token != place.prompt) {
      text = fmt::format("weights on the {}, a prompt computed by {}, a token by {}",
                         tier(place.home), by(place.prompt), by(place.token));
    }
    return text;
  };
  // In the order in which they come first.
  List<std::pair<std::string, int>> kinds;
  for (int b = 0; b < work.blocks.count(); ++b) {
    const Block& block = work.blocks[b];
    std::string text;
    if (block.kind == BlockKind::embedding) text = fmt::format("embedding: {}", line(places[b]));
    if (block.kind == BlockKind::head) text = fmt::format("head: {}", line(places[b]));
    if (block.half == LayerHalf::attention) {
      text =
          fmt::format("attention: {}, its cache on the {}", line(places[b]), tier(places[b].cache));
    }
    if (block.half == LayerHalf::mlp) text = fmt::format("MLP: {}", line(places[b]));
    const auto known =
        std::ranges::find_if(kinds, [&](const auto& kind) { return kind.first == text; });
    if (known != kinds.end()) {
      ++known->second;
    } else {
      kinds.emplace_back(text, 1);
    }
  }
  std::string all;
  for (const auto& [text, count] : kinds) all += fmt::format("  {:>4} x {}\n", count, text);
  return all;
}

}  // namespace

GenerationPlan plan_generation(const GenerationWork& work, const GenerationChoices& choices,
                               const Limits& limits, const Profile& profile) {
  GenerationPlan plan = lay_out_generation(work, choices, limits, profile);
  predict(plan, work);
  return plan;
}

std::string explain(const GenerationPlan& plan) {
  const bool several = plan.sequences > 1;
  return fmt::format(
      "Plan: {}\n  {} parameters, {}a prompt of {} tokens and up to {} more{}\n{}{}"
      "{}, in {} of up to {} tokens, is predicted to take {} ({:.0f} tokens/s) on {}.\n"
      "A slice in the middle of it takes {}:\n{}"
      "A token{} is predicted to take {} ({:.1f} tokens/s{}) with {} before it:\n{}",
      flags_of(plan.choices), format_count(plan.slice.workload.parameters()),
      several ? fmt::format("{} sequences at once, ", plan.sequences) : "", plan.prompt_tokens,
      plan.max_tokens, several ? " of each" : "", places_of(plan), memory_table(plan.slice),
      several ? "A prompt" : "The prompt",
      plan.slices == 1 ? "one slice" : fmt::format("{} slices", plan.slices),
      plan.slice.workload.tokens, format_seconds(plan.prompt_seconds),
      static_cast<double>(plan.prompt_tokens) / plan.prompt_seconds, plan.slice.profile.name,
      format_seconds(plan.slice.prediction.step_seconds), pass_table(plan.slice),
      several ? " of each" : "", format_seconds(plan.token.prediction.step_seconds),
      plan.tokens_per_second(), several ? " together" : "", plan.context, pass_table(plan.token));
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
