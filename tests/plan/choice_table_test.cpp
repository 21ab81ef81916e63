// The table of choices: what its rows promise, and that a row is all that a new choice takes.
#include "plan/choice_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "plan/even_work.h"
#include "plan/planner.h"
#include "plan/random_work.h"
#include "plan/search.h"

namespace ebb::plan {
namespace {

constexpr Bytes kPlenty = Bytes{1} << 50;

TEST(ChoiceTable, RowsKeepWhatTheySay) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Workload work = random_workload(seed);
    for (const Choice& row : choice_table()) {
      SCOPED_TRACE(std::string(row.flag.empty() ? "--states" : row.flag));
      Choices choices{.offload_fraction = 1};
      const std::int64_t least = row.least(work), most = row.most(work, choices);
      EXPECT_LE(least, most);
      ASSERT_FALSE(row.grid(work).empty());
      for (const std::int64_t value : row.grid(work)) {
        EXPECT_GE(value, least);
        EXPECT_LE(value, most);
        row.set(choices, value);
        EXPECT_EQ(row.get(choices), value);
      }
      EXPECT_FALSE(row.given({}).has_value());
      EXPECT_FALSE(is_fixed(row, {}));
    }
  }
}

// A choice that no table has: which of two tiers states go to. One row, and the search finds the
// faster one where both have room and the other where only that has.
Choice state_home_row() {
  return {.flag = "--state-home",
          .zero = "host",
          .get = [](const Choices& choices) -> std::int64_t {
            return choices.state_home == Tier::host ? 0 : 1;
          },
          .set = [](Choices& choices,
                    std::int64_t value) { choices.state_home = value == 0 ? Tier::host : kShelf; },
          .given = [](const FixedChoices&) -> std::optional<std::int64_t> { return std::nullopt; },
          .release = [](FixedChoices&) {},
          .least = [](const Workload&) { return std::int64_t{0}; },
          .most = [](const Workload&, const Choices&) { return std::int64_t{1}; },
          .grid =
              [](const Workload&) {
                return Choice::Values{0, 1};
              }};
}

TEST(ChoiceTable, ARowIsAllThatANewChoiceTakes) {
  Workload work = even_work();
  work.topology = with_shelf();
  std::vector<Choice> table(choice_table().begin(), choice_table().end());
  table.insert(table.begin(), state_home_row());
  const SearchBudget budget{.table = table};
  const Bytes all =
      plan_with(work, {.chunk_parameters = 16384}, {{Tier::device, kPlenty}}, machine())
          .peak(Tier::device);
  Limits limits{{Tier::device, all / 2}, {Tier::host, kPlenty}, {kShelf, kPlenty}};
  const SearchResult in_host = search(work, {.chunk_parameters = 16384}, limits, machine(), budget);
  ASSERT_TRUE(in_host.fits);
  EXPECT_EQ(in_host.choices.state_home, Tier::host);
  EXPECT_NE(flags_of(in_host.choices, table).find("--state-home host"), std::string::npos);

  limits[Tier::host] = in_host.needs[Tier::host] / 4;
  const SearchResult on_shelf =
      search(work, {.chunk_parameters = 16384}, limits, machine(), budget);
  ASSERT_TRUE(on_shelf.fits);
  EXPECT_EQ(on_shelf.choices.state_home, kShelf);
  EXPECT_GT(on_shelf.needs[kShelf], 0);
  EXPECT_NE(flags_of(on_shelf.choices, table).find("--state-home 1"), std::string::npos);
  EXPECT_GE(on_shelf.step_seconds, in_host.step_seconds);
}

// Points drawn from all that can be chosen: none is faster than what is found by more than 2%.
TEST(ChoiceTable, SearchIsWithinTwoPercentOfThousandsOfRandomPoints) {
  const std::int64_t points =
      std::getenv("EBB_TEST_POINTS") ? 5000 : static_cast<std::int64_t>(fewer_if_small(400));
  for (const std::int64_t micro_batches : {1, 4}) {
    const Workload work = even_work(micro_batches);
    const Bytes all = plan_with(work, {.chunk_parameters = 16384},
                                {{Tier::device, kPlenty}, {Tier::host, kPlenty}}, machine())
                          .peak(Tier::device);
    for (const int percent : {45, 70}) {
      const Limits limits{{Tier::device, all * percent / 100}, {Tier::host, kPlenty}};
      const Plan found = make_plan(work, {}, limits, machine());
      double best = std::numeric_limits<double>::infinity();
      Choices by;
      Dice dice(static_cast<std::uint64_t>(micro_batches * 100 + percent));
      for (std::int64_t i = 0; i < points; ++i) {
        Choices choices{.offload_fraction = static_cast<double>(dice.between(0, 64)) / 64};
        for (const Choice& row : choice_table()) {
          const std::int64_t least = row.least(work);
          const std::int64_t most =
              std::min<std::int64_t>(row.most(work, choices),
                                     row.grid(work).back() <= 16 ? 16 : 4 * row.grid(work).back());
          row.set(choices, dice.between(std::max(least, most / 16), most));
        }
        const auto plan = try_plan_with(work, choices, limits, machine());
        if (!plan || plan->prediction.step_seconds >= best) continue;
        best = plan->prediction.step_seconds;
        by = choices;
      }
      EXPECT_LE(found.prediction.step_seconds, 1.02 * best)
          << micro_batches << " micro-batches, " << percent << "%: found "
          << flags_of(found.choices) << ", at random " << flags_of(by);
    }
  }
}

}  // namespace
}  // namespace ebb::plan
