// Generation's plans: programs without races over one memory, and predictions that make sense.
#include "plan/generation_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/explain.h"
#include "plan/generation_program.h"
#include "plan/generation_work.h"
#include "plan/machines.h"
#include "plan/program_check.h"
#include "plan/refusal.h"
#include "plan/trace_check.h"

namespace ebb::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

GenerationWork work_of(std::size_t layers, std::int64_t prompt, std::int64_t answer) {
  return generation_work_of(layers, prompt, answer);
}

// With everything on the device.
GenerationPlan plan_generation(const GenerationWork& work, const Limits& limits,
                               const Profile& profile) {
  return plan_generation(work, {}, limits, profile);
}

const Limits kRoomy = {{Tier::device, Bytes{1} << 50}, {Tier::host, Bytes{1} << 50}};

TEST(GenerationPlan, ItsProgramsAreFreeOfRacesAndOverlaps) {
  for (const std::size_t layers : {1u, 2u, 7u}) {
    for (const std::int64_t prompt : {1, 5, 64, 200}) {
      const GenerationPlan plan =
          plan_generation(work_of(layers, prompt, 20), kRoomy, machine("h100"));
      for (const Plan* each : {&plan.slice, &plan.token}) {
        const std::string where = fmt::format("{} layers, a prompt of {}", layers, prompt);
        EXPECT_EQ(check_uses(each->program), "") << where;
        EXPECT_EQ(check_written_first(each->program), "") << where;
        EXPECT_EQ(check_lanes(each->program), "") << where;
        EXPECT_EQ(check_addresses(each->program, each->layout), "") << where;
        EXPECT_EQ(check_waits(each->program), "") << where;
        EXPECT_EQ(check_races(each->program, each->layout), "") << where;
      }
    }
  }
}

TEST(GenerationPlan, BothProgramsFindWhatIsKeptInOnePlace) {
  const GenerationPlan plan = plan_generation(work_of(3, 100, 20), kRoomy, machine("h100"));
  EXPECT_EQ(plan.slice.layout.size, plan.token.layout.size);
  std::size_t kept = 0;
  for (; plan.slice.program.objects[kept].persistent; ++kept) {
    EXPECT_EQ(plan.slice.program.objects[kept].name, plan.token.program.objects[kept].name);
    EXPECT_EQ(plan.slice.layout.offsets[kept], plan.token.layout.offsets[kept]);
  }
  // Weights of all blocks, caches of the layers, scratch, tables, tokens and logits.
  EXPECT_EQ(kept, 8u + 3u + 4u);
}

TEST(GenerationPlan, APeakIsWhatTheTableAddsUpTo) {
  const GenerationPlan plan = plan_generation(work_of(4, 128, 100), kRoomy, machine("h100"));
  // Six blocks of weights, four caches, and what one pass needs: its input, what lies between its
  // halves, its output, its work.
  const Bytes kept = 2 * align_up(6'000'000) + 4 * (align_up(1'500'000) + align_up(4'500'000)) +
                     4 * align_up(512 * 228) + align_up(4000) + align_up(64 * 228);
  EXPECT_GE(plan.peak(Tier::device), kept + 1000 + 3 * 64 * 1024 + 64 * 5000);
  EXPECT_LE(plan.peak(Tier::device), kept + 1000 + 3 * 64 * 1024 + 64 * 5000 + 50'000);
  // Tokens and logits, the tokenizer, and both programs: a task a block, two transfers, and the
  // host's two.
  EXPECT_EQ(plan.peak(Tier::host),
            align_up(4 * 64) + align_up(40'000) + 50'000 + 100 * 2 * (6 + 2 + 2));
  Bytes sum = 0;
  for (const auto& [purpose, bytes] : bytes_at_peak(plan.slice, Tier::device)) sum += bytes;
  EXPECT_LE(sum + 1000, plan.peak(Tier::device));  // beside some holes
  EXPECT_GE(sum + 1000 + 4 * kAlignment, plan.peak(Tier::device));
}

TEST(GenerationPlan, LongerTakesLonger) {
  const auto of = [](std::int64_t prompt, std::int64_t answer) {
    return plan_generation(work_of(4, prompt, answer), kRoomy, machine("rtx-4090"));
  };
  double seconds = 0, token = 0;
  Bytes peak = 0;
  for (const std::int64_t prompt : {1, 7, 64, 65, 128, 1000, 5000}) {
    const GenerationPlan plan = of(prompt, 100);
    EXPECT_GT(plan.prompt_seconds, seconds) << prompt;
    EXPECT_GT(1 / plan.tokens_per_second(), token) << prompt;
    EXPECT_GT(plan.peak(Tier::device), peak) << prompt;
    EXPECT_EQ(plan.slices, (prompt + 63) / 64);
    seconds = plan.prompt_seconds;
    token = 1 / plan.tokens_per_second();
    peak = plan.peak(Tier::device);
  }
  EXPECT_GT(of(100, 900).token.prediction.step_seconds, of(100, 10).token.prediction.step_seconds);
}

// A token reads every weight once: no device is faster than its memory.
TEST(GenerationPlan, ATokenIsBoundByWhatItReads) {
  const GenerationPlan plan = plan_generation(work_of(30, 64, 10), kRoomy, machine("h100"));
  const double read = 32 * 6e6 / machine("h100").device_bytes_per_second;
  EXPECT_GT(plan.token.prediction.step_seconds, read);
  // The next token follows from a run's logits: nothing of the next run hides that.
  double alone = 0;
  for (const Task& task : plan.token.program.tasks) {
    alone += predicted_seconds(task, (*plan.token.program.topology)[task.lane], plan.token.profile);
  }
  EXPECT_NEAR(plan.token.prediction.step_seconds, alone, 1e-9);
}

TEST(GenerationPlan, IsExplained) {
  const std::string text = explain(plan_generation(work_of(30, 200, 10), kRoomy, machine("h100")));
  EXPECT_THAT(text, AllOf(HasSubstr("a prompt of 200 tokens and up to 10 more"),
                          HasSubstr("key-value cache"), HasSubstr("tokenizer"), HasSubstr("limit"),
                          HasSubstr("4 slices of up to 64 tokens"), HasSubstr("tokens/s"),
                          HasSubstr("bound by compute"), Not(HasSubstr("gradients"))))
      << text;
}

TEST(GenerationPlan, WhatIsMissingIsTold) {
  const GenerationWork work = work_of(4, 100, 10);
  const Bytes needed = plan_generation(work, kRoomy, machine("h100")).peak(Tier::device);
  const auto with = [&](Bytes device) {
    return plan_generation(work, {{Tier::device, device}, {Tier::host, kGiB}}, machine("h100"));
  };
  EXPECT_TRUE(fits(with(needed).slice));
  EXPECT_FALSE(fits(with(needed - 1).slice));
  const OutOfBudget refused = refuse(with(needed - 256).slice, "--depth 2", {"--dtype bf16"});
  EXPECT_THAT(refused.what(),
              AllOf(HasSubstr("key-value cache"), HasSubstr("Missing on the device: 256 B"),
                    HasSubstr(fmt::format("--device-memory {} would do", needed)),
                    HasSubstr("Closest plan: --depth 2"), HasSubstr("  - --dtype bf16\n")));
  ASSERT_EQ(refused.shortfalls().size(), 1u);
  EXPECT_EQ(refused.shortfalls()[0].missing(), 256);
}

TEST(GenerationPlan, ItsTracesKeepTheirPromises) {
  const GenerationPlan plan = plan_generation(work_of(3, 200, 10), kRoomy, machine("h100"));
  const std::vector<Trace> traces = predicted_traces(plan);
  ASSERT_EQ(traces.size(), 2u);
  for (const Trace& trace : traces) {
    TraceCheck check(text_of(trace), trace.plan, 0);
    check.expect_all();
    EXPECT_NEAR(check.step_seconds().rbegin()->second, trace.plan.prediction.step_seconds, 1e-8);
  }
  std::string text;
  write_trace(traces, [&](std::string_view piece) { text += piece; });
  EXPECT_THAT(
      text, AllOf(HasSubstr("ebb plan, slice, predicted"), HasSubstr("ebb plan, token, predicted"),
                  HasSubstr("decode block 1"), HasSubstr("predicted_token_seconds")));
  EXPECT_NO_THROW(parse_json(text, "a trace"));
}

}  // namespace
}  // namespace ebb::plan
