// How good the search is, what it costs, and that alternatives are what they say.
#include "plan/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ebb/error.h"
#include "plan/alternatives.h"
#include "plan/even_work.h"
#include "plan/explain.h"
#include "plan/planner.h"
#include "scale.h"

namespace ebb::plan {
namespace {

constexpr Bytes kRoomy = Bytes{1} << 50;
constexpr std::int64_t kChunk = 16384;

// Limits between the least that anything runs in and room for all.
std::vector<Limits> limits_for(const Workload& work) {
  const Bytes all = plan_with(work, {.chunk_parameters = kChunk},
                              {{Tier::device, kRoomy}, {Tier::host, kRoomy}}, machine())
                        .peak(Tier::device);
  std::vector<Limits> limits;
  for (const int percent : {36, 50, 64, 80, 92}) {
    limits.push_back({{Tier::device, all * percent / 100}, {Tier::host, kRoomy}});
  }
  return limits;
}

// Plans that a person would try.
std::vector<Choices> made_by_hand() {
  std::vector<Choices> all;
  for (const double offload : {0.25, 0.5, 0.75, 1.0}) {
    for (const double host : {0.0, 0.3, 1.0}) {
      for (const std::int64_t recompute : {0, 3, 6}) {
        all.push_back({.offload_fraction = offload,
                       .host_fraction = offload * host,
                       .chunk_parameters = kChunk,
                       .recompute_blocks = recompute});
      }
    }
  }
  return all;
}

TEST(Search, IsWithinFivePercentOfTheBestPlanMadeByHand) {
  int compared = 0;
  for (const std::int64_t micro_batches : {1, 2, 8}) {
    const Workload work = even_work(micro_batches);
    for (const Limits& limits : limits_for(work)) {
      double best = std::numeric_limits<double>::infinity();
      Choices by;
      for (const Choices& choices : made_by_hand()) {
        const auto plan = try_plan_with(work, choices, limits, machine());
        if (!plan || plan->prediction.step_seconds >= best) continue;
        best = plan->prediction.step_seconds;
        by = choices;
      }
      if (best == std::numeric_limits<double>::infinity()) continue;
      const Plan plan = make_plan(work, {.chunk_parameters = kChunk}, limits, machine());
      EXPECT_LE(plan.prediction.step_seconds, best * 1.05)
          << micro_batches << " micro-batches, " << limits[Tier::device] << " bytes: found "
          << flags_of(plan.choices) << ", by hand " << flags_of(by);
      ++compared;
    }
  }
  EXPECT_GE(compared, 10);
}

// A vocabulary that is most of the model: eight pieces of a table that the head shares.
Workload with_long_vocabulary() {
  Workload work = even_work();
  constexpr std::int64_t each = 65536;
  for (Block* block : {&work.blocks.front(), &work.blocks.back()}) {
    const bool table = block == &work.blocks.front();
    block->parameters = table ? 8 * each : 64;
    block->tensors = {{0, block->parameters}};
    block->backward_work = table ? 0 : 1'000'000;
    for (std::int64_t p = 0; p < 8; ++p) {
      block->pieces.push_back({.first = table ? p * each : 0,
                               .count = table ? each : 0,
                               .forward = {.flops = 1e8},
                               .backward = {.flops = 2e8},
                               .backward_work = table ? 0 : 125'000});
    }
    if (!table) block->pieces.push_back({.first = 0, .count = 64});
  }
  work.blocks.back().pieces_state = work.blocks.back().pieces_gradient = work.input;
  work.tied_sum = 4 * 8 * each;
  return work;
}

TEST(Search, CutsTheVocabularyOnlyWhereItDoesNotFitWhole) {
  const Workload work = with_long_vocabulary();
  const auto limits = [](Bytes device) {
    return Limits{{Tier::device, device}, {Tier::host, kRoomy}};
  };
  Bytes whole = 0, cut = 0;  // the least that each fits in
  for (Bytes device = 8 * kMiB; device > 64 * kKiB;
       device = device * (small_scale() ? 3 : 13) / (small_scale() ? 4 : 16)) {
    const SearchResult found = search(work, {}, limits(device), machine());
    if (!found.fits) break;
    const bool fits_whole = search(work, {.vocabulary_cut = 0}, limits(device), machine()).fits;
    EXPECT_EQ(found.choices.vocabulary_cut, fits_whole ? 0 : 1) << device;
    (fits_whole ? whole : cut) = device;
  }
  ASSERT_GT(whole, 0);
  ASSERT_GT(cut, 0);
  EXPECT_LT(cut, whole / 2);
  // Who asks for the whole is told what would help.
  try {
    make_plan(work, {.vocabulary_cut = 0}, limits(cut), machine());
    FAIL() << "fits whole";
  } catch (const OutOfBudget& error) {
    EXPECT_NE(std::string(error.what()).find("--vocabulary auto"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("--vocabulary cut"), std::string::npos);
  }
}

TEST(Search, IsBoundByProgramsBuilt) {
  // A point looks for its least share and tries a few: that much more after the last one began.
  constexpr int of_a_point = 16;
  const Workload work = even_work(4);
  for (const Limits& limits : limits_for(work)) {
    for (const int programs : {60, 120, 300}) {
      const SearchResult found = search(work, {}, limits, machine(), {.programs = programs});
      EXPECT_TRUE(found.fits);
      EXPECT_LE(found.programs, programs + of_a_point) << limits[Tier::device] << " bytes";
    }
  }
}

TEST(Search, LooksAtFewMicroBatchesOfMany) {
  const Workload work = even_work(300);
  for (const Limits& limits : limits_for(work)) {
    const SearchResult found = search(work, {.chunk_parameters = kChunk}, limits, machine());
    ASSERT_TRUE(found.fits);
    const Plan plan = plan_with(work, found.choices, limits, machine());
    EXPECT_TRUE(fits(plan)) << flags_of(found.choices);
    EXPECT_NEAR(found.step_seconds / plan.prediction.step_seconds, 1, 0.01)
        << flags_of(found.choices);
  }
}

TEST(Alternatives, AreWhatTheySay) {
  // Tight enough that states are in the way.
  const Workload work = even_work(2);
  const Limits limits = limits_for(work)[0];
  const FixedChoices fixed{.recompute_blocks = 4, .chunk_parameters = kChunk};
  const Plan plan = make_plan(work, fixed, limits, machine());
  Variant compact{.flags = "--state-format small", .workload = work, .profile = machine()};
  for (Block& block : compact.workload.blocks) block.states = {{2}, {1}, {1}};
  const auto all = alternatives_to(plan, fixed, {compact});
  bool has_compact = false;
  for (const Alternative& each : all) {
    SCOPED_TRACE(each.flags + ": " + flags_of(each.choices));
    // What the user fixed stays fixed.
    EXPECT_EQ(each.choices.recompute_blocks, 4);
    EXPECT_EQ(each.choices.chunk_parameters, kChunk);
    Workload other = work;
    if (each.flags == compact.flags) other = compact.workload;
    if (each.flags == "--accumulate 8") other.micro_batches = 8;
    Limits its = limits;
    if (each.flags.starts_with("--device-memory")) {
      its[Tier::device] = parse_bytes(each.flags.substr(16), "limit");
    }
    const Plan again = plan_with(other, each.choices, its, machine());
    EXPECT_TRUE(fits(again));
    EXPECT_NEAR(again.tokens_per_second() / plan.tokens_per_second(), each.speed,
                0.01 * each.speed);
    EXPECT_NEAR(static_cast<double>(again.peak(Tier::host) - plan.peak(Tier::host)),
                static_cast<double>(each.host), 4096);
    if (each.flags.starts_with("--states")) {
      EXPECT_EQ(flags_of(each.choices).find(each.flags), 0u);
    }
    has_compact = has_compact || each.flags == compact.flags;
  }
  EXPECT_TRUE(has_compact);
  EXPECT_GE(all.size(), 3u);
  const std::string text = explain(all);
  for (const Alternative& each : all) EXPECT_NE(text.find(each.flags), std::string::npos) << text;
}

const Alternative* with_memory(const std::vector<Alternative>& all, const std::string& note) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Alternative& each) {
    return each.note.find(note + " device memory") != std::string::npos;
  });
  return found == all.end() ? nullptr : &*found;
}

TEST(Alternatives, OfMoreMemoryAreNotSlowerAndWithinWhatThereIs) {
  const Workload work = even_work();
  int given = 0;
  for (const Limits& limits : limits_for(work)) {
    Profile profile = machine();
    for (const int times : {1, 2}) {
      profile.device_memory = times * limits[Tier::device];
      const Plan plan = make_plan(work, {}, limits, profile);
      const auto all = alternatives_to(plan, {}, {});
      const Alternative* more = with_memory(all, "more");
      if (more == nullptr) continue;
      EXPECT_EQ(times, 2) << more->flags << " of " << profile.device_memory << " bytes";
      EXPECT_GT(more->speed, 0.97) << more->flags << " after " << flags_of(plan.choices);
      ++given;
    }
  }
  EXPECT_GT(given, 0);
}

// The best plan with less may be far from the one that was found: keep less, and other shares.
TEST(Alternatives, OfLessMemoryAreWhatASearchFinds) {
  int given = 0;
  for (const std::int64_t micro_batches : {1, 2, 4}) {
    if (small_scale() && micro_batches != 2) continue;
    const Workload work = even_work(micro_batches);
    for (const Limits& limits : limits_for(work)) {
      const Plan plan = make_plan(work, {}, limits, machine());
      const auto all = alternatives_to(plan, {}, {});
      const Alternative* less = with_memory(all, "less");
      if (less == nullptr) continue;
      const Limits its{{Tier::device, parse_bytes(less->flags.substr(16), "limit")},
                       {Tier::host, limits[Tier::host]}};
      const Plan anew = make_plan(work, {}, its, machine());
      EXPECT_GT(less->speed, 0.95 * anew.tokens_per_second() / plan.tokens_per_second())
          << less->flags << " after " << flags_of(plan.choices) << ": " << flags_of(anew.choices);
      ++given;
    }
  }
  EXPECT_GT(given, 0);
}

}  // namespace
}  // namespace ebb::plan
