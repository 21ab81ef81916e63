// Generation with weights and cache on any tier: programs of random choices are free of races, and
// the search finds what fits, says it as flags, and keeps what the user fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/explain.h"
#include "plan/generation_program.h"
#include "plan/generation_search.h"
#include "plan/generation_work.h"
#include "plan/machines.h"
#include "plan/program_check.h"
#include "plan/random_work.h"

namespace ebb::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Limits kRoomy = {
    {Tier::device, Bytes{1} << 50}, {Tier::host, Bytes{1} << 50}, {kShelf, Bytes{1} << 50}};

GenerationWork random_generation(Dice& dice) {
  const auto layers = static_cast<std::size_t>(dice.between(1, 5));
  const std::int64_t prompt = dice.between(1, 300);
  GenerationWork work =
      generation_work_of(layers, prompt, dice.between(1, 50), dice.pick<std::int64_t>({1, 7, 64}));
  const bool tied = dice.chance(0.5), shelf = dice.chance(0.6);
  const auto parameters = 128 * dice.between(1, 400);
  for (Workload* each : {&work.slice, &work.token, work.rest ? &*work.rest : nullptr}) {
    if (each == nullptr) continue;
    each->tied = tied;
    if (shelf) each->topology = with_shelf();
    for (Block& block : each->blocks) block.parameters = parameters;
  }
  return for_sequences(std::move(work), dice.pick<std::int64_t>({1, 2, 5}));
}

GenerationChoices random_generation_choices(Dice& dice, const Workload& work) {
  const std::int64_t most = most_streamed(work);
  GenerationChoices c;
  c.streamed_weights = dice.pick<std::int64_t>({0, most, dice.between(0, most)});
  const std::int64_t layers = streamed_layers(work, c.streamed_weights);
  const auto some = [&] { return dice.pick<std::int64_t>({0, layers, dice.between(0, layers)}); };
  if (work.topology->tiers.size() > 2) {
    c.below = kShelf;
    c.disk_weights = some();
  }
  c.attention_resident = dice.between(0, 1);
  c.cpu_blocks = some();
  c.cpu_prompt_blocks = some();
  c.cache = dice.pick({CacheHome::mixed, CacheHome::device, CacheHome::host});
  c.depth = dice.pick<std::int64_t>({2, 3, 8});
  return c;
}

TEST(GenerationTiers, ProgramsOfAnyChoicesAreFreeOfRacesAndOverlaps) {
  for (std::uint64_t seed = 0; seed < fewer_if_small(150); ++seed) {
    Dice dice(seed);
    const GenerationWork work = random_generation(dice);
    const GenerationChoices choices = random_generation_choices(dice, work.slice);
    const GenerationPlan plan = plan_generation(work, choices, kRoomy, machine("h100"));
    for (const Plan* each : {&plan.slice, &plan.token}) {
      const std::string where = fmt::format(
          "seed {}, {}: {}", seed, each == &plan.slice ? "slice" : "token", flags_of(plan.choices));
      ASSERT_EQ(check_uses(each->program), "") << where;
      ASSERT_EQ(check_written_first(each->program), "") << where;
      ASSERT_EQ(check_lanes(each->program), "") << where;
      ASSERT_EQ(check_addresses(each->program, each->layout), "") << where;
      ASSERT_EQ(check_waits(each->program), "") << where;
      ASSERT_EQ(check_races(each->program, each->layout), "") << where;
    }
    EXPECT_EQ(plan.slice.layout.size, plan.token.layout.size) << seed;
  }
}

// Runs follow each other without a pause: what a run computes begins when the one before has chosen
// its tokens, and what streams may come before that.
TEST(GenerationTiers, OnlyWhatDependsOnTokensWaitsForThem) {
  int ahead = 0;
  for (std::uint64_t seed = 0; seed < fewer_if_small(40); ++seed) {
    Dice dice(seed ^ 0x0e11);
    const GenerationWork work = random_generation(dice);
    const GenerationChoices choices = random_generation_choices(dice, work.slice);
    const GenerationPlan plan = plan_generation(work, choices, kRoomy, machine("rtx-4090"));
    for (const Plan* each : {&plan.slice, &plan.token}) {
      const auto& tasks = each->program.tasks;
      double chosen = 0;
      for (const TimeSpan& span : simulate_spans(each->program, each->profile)) {
        const Task& task = tasks[span.task];
        if (span.step == 0 && task.op == Op::choose_tokens) chosen = span.end;
        if (span.step != 1) continue;
        if (!task.is_transfer()) {
          EXPECT_GE(span.start, chosen - 1e-12) << seed << " " << flags_of(plan.choices);
        }
        if (task.is_transfer() && span.start < chosen) ++ahead;
      }
    }
  }
  EXPECT_GT(ahead, 0);
}

GenerationPlan found(const GenerationWork& work, const Limits& limits,
                     const FixedGenerationChoices& fixed = {},
                     const std::string& name = "rtx-4090") {
  return search_generation(
      {.slices = {work.slice.tokens},
       .work = [&](std::int64_t, bool) -> const GenerationWork& { return work; },
       .tokens = 20},
      fixed, limits, machine(name));
}

TEST(GenerationTiers, TheSearchFitsWhatCanFit) {
  const GenerationWork work = generation_work_of(6, 100, 20);
  const Bytes all = found(work, kRoomy).peak(Tier::device);
  EXPECT_EQ(found(work, kRoomy).choices.streamed_weights, 0);
  double last = 0;
  int streams = 0;
  for (int share = 20; share >= 0; --share) {
    const Limits limits = {{Tier::device, all * share / 20}, {Tier::host, kGiB}};
    const GenerationPlan plan = found(work, limits);
    if (!fits(plan.slice)) {
      EXPECT_LT(share, 4);
      EXPECT_GT(missing_bytes(plan.slice), 0);
      continue;
    }
    streams += plan.choices.streamed_weights > 0 ? 1 : 0;
    // With less memory nothing gets faster.
    EXPECT_GE(plan.seconds(20), last * 0.999) << share;
    last = plan.seconds(20);
    // Its flags give it again.
    const GenerationChoices& c = plan.choices;
    const GenerationPlan same = found(work, limits,
                                      {.streamed_weights = c.streamed_weights,
                                       .disk_weights = c.disk_weights,
                                       .attention_resident = c.attention_resident,
                                       .cpu_blocks = c.cpu_blocks,
                                       .cpu_prompt_blocks = c.cpu_prompt_blocks,
                                       .cache = c.cache,
                                       .slice = c.slice,
                                       .depth = c.depth});
    EXPECT_EQ(same.choices, c) << flags_of(c);
    EXPECT_EQ(same.seconds(20), plan.seconds(20));
  }
  EXPECT_GT(streams, 10);
}

// A copy of a weight that the CPU computes with is the one that comes up for prompts.
TEST(GenerationTiers, OneCopyInHostMemoryServesBothPhases) {
  const GenerationWork work = generation_work_of(6, 100, 20);
  const GenerationPlan plan =
      found(work, {{Tier::device, 15'000'000}, {Tier::host, kGiB}}, {.cpu_prompt_blocks = 0});
  ASSERT_TRUE(fits(plan.slice)) << explain(plan);
  ASSERT_GT(plan.choices.cpu_blocks, 0);
  const auto on_cpu = [](const Plan& of) {
    return std::ranges::count_if(of.program.tasks, [](const Task& task) {
      return !task.is_transfer() && task.lane == Lane::host && task.op != Op::embed &&
             task.op != Op::logits && task.op != Op::take_tokens && task.op != Op::choose_tokens;
    });
  };
  EXPECT_EQ(on_cpu(plan.slice), 0);
  EXPECT_GT(on_cpu(plan.token), 0);
  Bytes weights = 0, all = 0;
  for (const Object& object : plan.slice.program.objects) {
    if (object.persistent && object.purpose == Purpose::weights) weights += object.bytes;
  }
  for (const Block& block : work.slice.blocks) {
    all += align_up(block.weights.bytes(block.parameters));
  }
  EXPECT_EQ(weights, all);
  EXPECT_THAT(explain(plan),
              AllOf(HasSubstr("weights on the host, a prompt computed by the device, a token by "
                              "the CPU"),
                    HasSubstr("--weights "), HasSubstr("--cpu-blocks ")));
}

// A token of blocks in host memory takes as long as the slower of link and CPU lets it.
TEST(GenerationTiers, TokensGoWhereTheyAreFastest) {
  const GenerationWork work = generation_work_of(20, 64, 20);
  const Limits limits = {{Tier::device, 30'000'000}, {Tier::host, kGiB}};
  const auto seconds = [&](std::int64_t cpu) {
    return found(work, limits, {.cpu_blocks = cpu}).token.prediction.step_seconds;
  };
  const double best = found(work, limits).token.prediction.step_seconds;
  EXPECT_LE(best, seconds(0) * 1.001);
  EXPECT_LE(best, seconds(20) * 1.001);
}

TEST(GenerationTiers, WhatHostMemoryCannotHoldGoesBelow) {
  GenerationWork work = generation_work_of(6, 100, 20);
  for (Workload* each : {&work.slice, &work.token, &*work.rest}) each->topology = with_shelf(kMiB);
  const Limits limits = {
      {Tier::device, 10'000'000}, {Tier::host, 34'000'000}, {kShelf, Bytes{1} << 40}};
  EXPECT_FALSE(fits(found(work, limits).slice));
  const GenerationPlan plan = found(work, limits, {.below = kShelf});
  EXPECT_TRUE(fits(plan.slice)) << explain(plan);
  EXPECT_GT(plan.choices.disk_weights, 0);
  EXPECT_LT(plan.choices.disk_weights, 6);
  EXPECT_THAT(explain(plan), HasSubstr("weights on the shelf"));
}

// Caches of all, one run for a token of each, and a limit that some of them fit.
TEST(GenerationTiers, SeveralSequencesShareTheWeightsAndNotTheCaches) {
  const GenerationWork one = generation_work_of(6, 100, 20);
  const auto peak = [&](const GenerationWork& work) {
    return found(work, kRoomy).peak(Tier::device);
  };
  const Bytes cache = 6 * align_up(512 * 120);
  const GenerationPlan eight = found(for_sequences(one, 8), kRoomy);
  EXPECT_GE(eight.peak(Tier::device), peak(one) + 7 * cache - 8 * kAlignment);
  EXPECT_LE(eight.peak(Tier::device), peak(one) + 8 * cache + 400'000);
  EXPECT_GT(eight.tokens_per_second(), 2 * found(one, kRoomy).tokens_per_second());
  EXPECT_LT(eight.tokens_per_second(), 8 * found(one, kRoomy).tokens_per_second());
  EXPECT_GT(eight.seconds(20), found(one, kRoomy).seconds(20));
  EXPECT_THAT(explain(eight), AllOf(HasSubstr("8 sequences at once"), HasSubstr("A token of each"),
                                    HasSubstr("tokens/s together")));
  const Limits limits = {{Tier::device, peak(one) + 3 * cache}, {Tier::host, kGiB}};
  const FixedGenerationChoices resident{.streamed_weights = 0, .cache = CacheHome::device};
  EXPECT_TRUE(fits(found(for_sequences(one, 3), limits, resident).slice));
  EXPECT_FALSE(fits(found(for_sequences(one, 8), limits, resident).slice));
}

TEST(GenerationTiers, SlicesAreEvenPartsOfThePrompt) {
  EXPECT_EQ(slices_of(1), (List<std::int64_t>{1}));
  EXPECT_EQ(slices_of(64), (List<std::int64_t>{64}));
  EXPECT_EQ(slices_of(1000), (List<std::int64_t>{1000, 256, 64}));
  EXPECT_EQ(slices_of(3000).front(), 1536);
  for (const std::int64_t prompt : {65, 777, 2048, 2049, 100'000}) {
    for (const std::int64_t slice : slices_of(prompt)) {
      EXPECT_LE(slice, std::min<std::int64_t>(prompt, 2048));
      EXPECT_GE(slice, 64);
    }
  }
}

}  // namespace
}  // namespace ebb::plan
