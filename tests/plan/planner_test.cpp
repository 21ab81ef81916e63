// What the planner chooses, keeps and refuses.
#include "plan/planner.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "ebb/error.h"
#include "plan/even_work.h"
#include "plan/explain.h"
#include "plan/program_check.h"
#include "plan/random_work.h"

namespace ebb::plan {
namespace {

const Limits kRoomy = {{Tier::device, Bytes{1} << 50}, {Tier::host, Bytes{1} << 50}};

// What `ebb` would read back from its own flags, by hand.
FixedChoices parse_flags(const std::string& flags) {
  FixedChoices fixed;
  std::istringstream words(flags);
  for (std::string flag, value; words >> flag >> value;) {
    const auto blocks = [&](const char* none) {
      return value == none ? std::int64_t{0} : std::int64_t{std::stoll(value)};
    };
    if (flag == "--states") {
      fixed.site = value == "resident" ? Site::resident
                   : value == "stream" ? Site::stream
                                       : Site::host;
      if (value != name_of(*fixed.site)) ADD_FAILURE() << "site " << value;
    } else if (flag == "--offload-fraction") {
      fixed.offload_fraction = std::stod(value);
    } else if (flag == "--host-fraction") {
      fixed.host_fraction = std::stod(value);
    } else if (flag == "--weights") {
      fixed.streamed_weights = blocks("resident");
    } else if (flag == "--gradient-sums") {
      fixed.host_sums = blocks("device");
    } else if (flag == "--recompute") {
      fixed.recompute_blocks = blocks("none");
    } else if (flag == "--save-cheap") {
      fixed.cheap_saved_blocks = blocks("none");
    } else if (flag == "--activations") {
      fixed.host_inputs = blocks("device");
    } else if (flag == "--vocabulary") {
      fixed.vocabulary_cut = value == "cut" ? 1 : 0;
      if (value != "cut" && value != "whole") ADD_FAILURE() << "vocabulary " << value;
    } else if (flag == "--chunk-parameters") {
      fixed.chunk_parameters = std::stoll(value);
    } else if (flag == "--depth") {
      fixed.depth = std::stoll(value);
    } else {
      ADD_FAILURE() << "an unknown flag: " << flag;
    }
  }
  return fixed;
}

Bytes resident_peak(const Workload& work) {
  return plan_with(work, {.chunk_parameters = 16384}, kRoomy, machine()).peak(Tier::device);
}

TEST(Planner, KeepsEverythingOnTheDeviceWhenThereIsRoom) {
  const Plan plan = make_plan(even_work(), {}, kRoomy, machine());
  EXPECT_EQ(plan.choices.offload_fraction, 0);
  EXPECT_EQ(plan.choices.recompute_blocks, 0);
  EXPECT_EQ(plan.choices.host_inputs, 0);
  EXPECT_EQ(plan.choices.cheap_saved_blocks, 6);
  EXPECT_EQ(flags_of(plan.choices).find("--states resident"), 0u);
}

TEST(Planner, KeepsWhatTheUserFixed) {
  const Workload work = even_work();
  const Bytes all = resident_peak(work);
  for (const Bytes device : {all * 3 / 4, all, kRoomy[Tier::device]}) {
    const Limits limits{{Tier::device, device}, {Tier::host, kRoomy[Tier::host]}};
    const auto plan = [&](const FixedChoices& fixed) {
      return make_plan(work, fixed, limits, machine()).choices;
    };
    SCOPED_TRACE(fmt::format("{} of {} bytes", device, all));
    FixedChoices fixed{.site = Site::stream};
    EXPECT_EQ(plan(fixed).offload_fraction, 1.0);
    EXPECT_EQ(plan(fixed).host_fraction, 0.0);
    fixed = {.site = Site::host};
    EXPECT_EQ(plan(fixed).host_fraction, 1.0);
    fixed = {.offload_fraction = 0.9};
    EXPECT_EQ(plan(fixed).offload_fraction, 0.9);
    fixed = {.site = Site::stream, .offload_fraction = 0.9, .host_fraction = 0.3};
    EXPECT_EQ(plan(fixed).offload_fraction, 0.9);
    EXPECT_EQ(plan(fixed).host_fraction, 0.3);
    fixed = {.host_fraction = 0.3};
    EXPECT_EQ(plan(fixed).host_fraction, 0.3);
    fixed = {.recompute_blocks = 2};
    EXPECT_EQ(plan(fixed).recompute_blocks, 2);
    fixed = {.host_inputs = 3};
    EXPECT_EQ(plan(fixed).host_inputs, 3);
    fixed = {.cheap_saved_blocks = 2};
    EXPECT_EQ(plan(fixed).cheap_saved_blocks, 2);
    fixed = {.chunk_parameters = 20000};
    EXPECT_EQ(plan(fixed).chunk_parameters, 20000);
    fixed = {.recompute_blocks = 99};
    EXPECT_EQ(plan(fixed).recompute_blocks, 6);  // every block there is
  }
}

TEST(Planner, PrintsFlagsThatGiveTheSamePlan) {
  for (std::uint64_t seed = 0; seed < 2 + fewer_if_small(6); ++seed) {
    const Workload work = random_workload(seed);
    const Bytes all =
        plan_with(work, {.chunk_parameters = 500}, kRoomy, machine()).peak(Tier::device);
    for (const double share : {0.5, 0.7, 0.9, 1.0}) {
      const Limits limits{{Tier::device, static_cast<Bytes>(share * static_cast<double>(all))},
                          {Tier::host, kRoomy[Tier::host]}};
      try {
        const Plan plan = make_plan(work, {.chunk_parameters = 500}, limits, machine());
        const std::string flags = flags_of(plan.choices);
        SCOPED_TRACE(fmt::format("seed {}, {} bytes: {}", seed, limits[Tier::device], flags));
        const Plan again = make_plan(work, parse_flags(flags), limits, machine());
        EXPECT_EQ(flags_of(again.choices), flags);
        EXPECT_TRUE(again.choices == plan.choices);
        EXPECT_EQ(again.peak(Tier::device), plan.peak(Tier::device));
        EXPECT_TRUE(fits(plan));
        EXPECT_EQ(check_races(plan.program, plan.layout), "");
      } catch (const OutOfBudget&) {
        EXPECT_LT(share, 1.0) << "seed " << seed;
      }
    }
  }
}

TEST(Planner, SaysHowManyBytesAreMissing) {
  const Workload work = even_work(2);
  const Limits tight{{Tier::device, resident_peak(work) / 16}, {Tier::host, kRoomy[Tier::host]}};
  try {
    make_plan(work, {}, tight, machine());
    FAIL() << "a sixteenth of the memory is not enough";
  } catch (const OutOfBudget& refusal) {
    const std::string text = refusal.what();
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found,
                                  std::regex(R"(\((\d+) bytes\); --device-memory (\d+) would do)")))
        << text;
    const Bytes missing = std::stoll(found[1]);
    const Bytes enough = std::stoll(found[2]);
    EXPECT_EQ(missing, enough - tight[Tier::device]) << text;
    std::smatch closest;
    ASSERT_TRUE(std::regex_search(text, closest, std::regex("Closest plan: (.*)\n"))) << text;
    const FixedChoices fixed = parse_flags(closest[1]);
    const Plan plan = make_plan(
        work, fixed, {{Tier::device, enough}, {Tier::host, tight[Tier::host]}}, machine());
    EXPECT_EQ(plan.peak(Tier::device), enough) << text;
    EXPECT_THROW(
        make_plan(work, fixed, {{Tier::device, enough - 1}, {Tier::host, tight[Tier::host]}},
                  machine()),
        OutOfBudget);
  }
}

TEST(Planner, SaysWhatWouldHelp) {
  const Workload work = even_work();
  const Limits limits{{Tier::device, resident_peak(work) * 3 / 4},
                      {Tier::host, kRoomy[Tier::host]}};
  try {
    make_plan(work, {.site = Site::resident, .recompute_blocks = 0, .host_inputs = 0}, limits,
              machine());
    FAIL() << "the states do not fit";
  } catch (const OutOfBudget& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("--states auto"), std::string::npos)
        << refusal.what();
  }
}

TEST(Planner, CountsHostMemoryOutsideTheProgram) {
  Workload work = even_work();
  const Plan plan = make_plan(work, {.site = Site::stream}, kRoomy, machine());
  Limits limits{{Tier::device, kRoomy[Tier::device]}, {Tier::host, plan.peak(Tier::host)}};
  EXPECT_NO_THROW(make_plan(work, {.site = Site::stream}, limits, machine()));
  work.extras.push_back({Tier::host, "data", 1});
  try {
    make_plan(work, {.site = Site::stream}, limits, machine());
    FAIL() << "one byte is missing";
  } catch (const OutOfBudget& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("Missing on the host: 1 B (1 bytes)"),
              std::string::npos)
        << refusal.what();
  }
}

// What the planner could have found: every share in eighths, every site, with and without
// recomputation and inputs on the host.
bool anything_fits(const Workload& work, const Limits& limits) {
  const auto layers = work.layers();
  for (int eighths = 0; eighths <= 8; ++eighths) {
    for (const double host_share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      for (const std::int64_t recompute : {std::int64_t{0}, layers / 2, layers}) {
        for (const std::int64_t inputs : {std::int64_t{0}, layers}) {
          const Choices choices{.offload_fraction = eighths / 8.0,
                                .host_fraction = eighths / 8.0 * host_share,
                                .chunk_parameters = 16384,
                                .recompute_blocks = recompute,
                                .host_inputs = inputs};
          if (fits(plan_with(work, choices, limits, machine()))) return true;
        }
      }
    }
  }
  return false;
}

TEST(Planner, RefusesOnlyWhatCannotFit) {
  // Both tiers are short: too little of the state on the host breaks one limit, too much the other.
  const Workload work = even_work();
  const Bytes device = resident_peak(work);
  const Bytes host =
      plan_with(work, {.offload_fraction = 1, .chunk_parameters = 16384}, kRoomy, machine())
          .peak(Tier::host);
  for (const double d : {0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
    for (const double h : {0.05, 0.2, 0.35, 0.5, 0.8, 1.0}) {
      const Limits limits{{Tier::device, static_cast<Bytes>(d * static_cast<double>(device))},
                          {Tier::host, static_cast<Bytes>(h * static_cast<double>(host))}};
      bool planned = true;
      try {
        EXPECT_TRUE(fits(make_plan(work, {.chunk_parameters = 16384}, limits, machine())));
      } catch (const OutOfBudget&) {
        planned = false;
      }
      EXPECT_TRUE(planned || !anything_fits(work, limits))
          << d << " of the device, " << h << " of the host";
    }
  }
}

// Where there is hardly room, states come in pieces smaller than usual before the work is refused.
TEST(Planner, TakesSmallerChunksWhereOnlyTheyFit) {
  Workload work = even_work();
  work.input = work.scratch = 0;
  for (Block& block : work.blocks) {
    block.saved = block.saved_mlp = 0;
    block.forward_work = block.recompute_work = block.backward_work = 0;
    block.lean_forward_work = block.lean_backward_work = 0;
  }
  FixedChoices streamed{
      .site = Site::stream, .offload_fraction = 1.0, .streamed_weights = 0, .host_sums = 0};
  const auto needs = [&](std::int64_t chunk) {
    return plan_with(work, {.offload_fraction = 1, .chunk_parameters = chunk},
                     {{Tier::device, 1}, {Tier::host, kRoomy[Tier::host]}}, machine())
        .peak(Tier::device);
  };
  const std::int64_t usual = default_chunk_parameters(work);
  const std::int64_t small = std::max(work.norm_block, usual / 8);
  ASSERT_LT(needs(small), needs(usual));
  const Limits limits{{Tier::device, needs(small)}, {Tier::host, kRoomy[Tier::host]}};
  const Plan plan = make_plan(work, streamed, limits, machine());
  EXPECT_TRUE(fits(plan));
  EXPECT_LT(plan.choices.chunk_parameters, usual);
  streamed.chunk_parameters = usual;
  EXPECT_THROW(make_plan(work, streamed, limits, machine()), OutOfBudget);
}

// A share for the CPU alone, where both tiers are short: the least share that fits lies between it
// and all, and chunks may be large.
TEST(Planner, FindsTheShareBetweenTwoShortTiers) {
  for (const std::int64_t chunk : {16384, 65536}) {
    for (const double by_cpu : {0.25, 0.5}) {
      const Workload work = even_work();
      const auto needs = [&](double offload) {
        const Plan plan = plan_with(
            work, {.offload_fraction = offload, .host_fraction = by_cpu, .chunk_parameters = chunk},
            {{Tier::device, 1}, {Tier::host, kRoomy[Tier::host]}}, machine());
        return Limits{{Tier::device, plan.peak(Tier::device)}, {Tier::host, plan.peak(Tier::host)}};
      };
      // Room for what three quarters need, and for no more on the host.
      const Limits limits = needs(0.75);
      ASSERT_GT(needs(by_cpu)[Tier::device], limits[Tier::device]);
      ASSERT_GT(needs(1.0)[Tier::host], limits[Tier::host]);
      const Plan plan = make_plan(work,
                                  {.host_fraction = by_cpu,
                                   .recompute_blocks = 0,
                                   .host_inputs = 0,
                                   .cheap_saved_blocks = 0,
                                   .chunk_parameters = chunk},
                                  limits, machine());
      EXPECT_TRUE(fits(plan));
      EXPECT_EQ(plan.choices.host_fraction, by_cpu);
      EXPECT_GT(plan.choices.offload_fraction, by_cpu);
      EXPECT_LE(plan.choices.offload_fraction, 0.75);
    }
  }
}

TEST(Planner, IsNeverSlowerWithMoreMemory) {
  for (const std::int64_t micro_batches : {1, 2, 4}) {
    const Workload work = even_work(micro_batches);
    const Bytes all = resident_peak(work);
    double fastest = std::numeric_limits<double>::infinity();
    int planned = 0;
    const int by = fewer_if_small(6) < 6 ? 6 : 2;
    for (int percent = 20; percent <= 110; percent += by) {
      try {
        const Plan plan = make_plan(
            work, {.chunk_parameters = 16384},
            {{Tier::device, all * percent / 100}, {Tier::host, kRoomy[Tier::host]}}, machine());
        // A plan that moves less may be 1% slower than the fastest, and so on twice; riding in
        // earlier can cost a little more, where it delays what the forward pass waits for.
        EXPECT_LE(plan.prediction.step_seconds, fastest * 1.03)
            << percent << "% with " << micro_batches
            << " micro-batches: " << flags_of(plan.choices);
        fastest = std::min(fastest, plan.prediction.step_seconds);
        ++planned;
      } catch (const OutOfBudget&) {
        EXPECT_EQ(planned, 0) << percent << "% does not fit, and less did";
      }
    }
    EXPECT_GT(planned, 10);
  }
}

TEST(Planner, ExplainsWithNumbersThatAddUp) {
  const Workload work = even_work();
  const Plan plan = make_plan(work, {.site = Site::stream}, kRoomy, machine());
  Bytes sum = 0;
  for (const auto& [purpose, bytes] : bytes_at_peak(plan, Tier::device)) sum += bytes;
  EXPECT_EQ(sum, peak_alive(plan.program, Tier::device));
  const std::string text = explain(plan);
  for (const char* word : {"--states stream", "predicted", "weights", "states", "limit"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
}

}  // namespace
}  // namespace ebb::plan
