// Any number of ranks gives the bits of one rank that takes the same micro-batches, wherever
// states, weights and sums are. Ranks are threads here, each with a runtime and a plan of its own.
#include <gtest/gtest.h>

#include <limits>
#include <mutex>

#include <fmt/format.h>

#include "dist/rank_threads.h"
#include "engine/rank_agreement.h"
#include "engine/small_runs.h"
#include "plan/exchange.h"
#include "print.h"
#include "scale.h"

namespace ebb::engine {
namespace {

constexpr int kSteps = 4;

TrainingSettings settings_of(int micro_batches, int groups = 0) {
  TrainingSettings s = small_settings();
  s.config.layers = 2;
  s.shape = {.rows = 1, .sequence = 16};
  s.accumulate = micro_batches;
  s.gradient_groups = groups;
  return s;
}

// What every rank found, which is the same on all. Rank 0 has read the states.
Outcome train_ranks(const TrainingSettings& settings, int count,
                    const std::function<void(int, TrainingSettings&)>& change = {}) {
  std::mutex mutex;
  List<Outcome> found(count);
  dist::run_ranks(count, [&](dist::Communicator& ranks) {
    TrainingSettings own = settings;
    own.ranks = &ranks;
    if (change) change(ranks.rank(), own);
    const Outcome outcome = train_small(own, 1, kSteps);
    std::lock_guard lock(mutex);
    found[ranks.rank()] = outcome;
  });
  for (int r = 0; r < count; ++r) {
    EXPECT_EQ(found[r].losses, found[0].losses) << "rank " << r;
    EXPECT_EQ(found[r].norms, found[0].norms) << "rank " << r;
    // One without a group runs no passes, and leaves some of its memory alone.
    if (r >= (settings.gradient_groups == 0 ? settings.accumulate : settings.gradient_groups)) {
      continue;
    }
    EXPECT_EQ(found[r].predicted_device, found[r].measured_device) << "rank " << r;
    EXPECT_EQ(found[r].predicted_host, found[r].measured_host) << "rank " << r;
  }
  return found[0];
}

void expect_same(const Outcome& found, const Outcome& expected, const std::string& where) {
  EXPECT_EQ(found.weights, expected.weights) << where;
  EXPECT_EQ(found.moments, expected.moments) << where;
  EXPECT_EQ(found.losses, expected.losses) << where;
  EXPECT_EQ(found.norms, expected.norms) << where;
}

class Ranks : public testing::TestWithParam<int> {};

// Every divisor of M, on more ranks than there are groups, too.
TEST_P(Ranks, GiveTheBitsOfOne) {
  const int micro_batches = GetParam();
  const Outcome plain = train_small(settings_of(micro_batches), 1, kSteps);
  for (int groups = 1; groups <= micro_batches; ++groups) {
    if (micro_batches % groups != 0) continue;
    const TrainingSettings settings = settings_of(micro_batches, groups);
    const Outcome alone = train_small(settings, 1, kSteps);
    if (groups == 1 || groups == micro_batches) {
      expect_same(alone, plain, fmt::format("M {}, G {}, one rank", micro_batches, groups));
    }
    for (const int ranks : {2, 3, 4}) {
      if (small_scale() && ranks == 3) continue;
      expect_same(train_ranks(settings, ranks), alone,
                  fmt::format("M {}, G {}, {} ranks", micro_batches, groups, ranks));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, Ranks, testing::Values(1, 2, 3, 4, 5, 6),
                         [](const auto& info) { return fmt::format("M{}", info.param); });

// Groups are sums of their own: else the bits of any two numbers of them would be the same. With
// gradients that are not rounded to bf16 that shows at once.
TEST(GradientGroups, AreInTheNumbers) {
  const auto train = [](int groups) {
    TrainingSettings settings = settings_of(6, groups);
    settings.gradient_type = DType::f32;
    return train_small(settings, 1, kSteps).weights;
  };
  EXPECT_NE(train(2), train(6));
  EXPECT_NE(train(2), train(3));
}

struct Placement {
  const char* name;
  std::function<void(plan::FixedChoices&)> choose;
};

std::vector<Placement> placements() {
  using enum plan::Site;
  return {
      {"resident", [](auto&) {}},
      {"stream", [](auto& f) { f.site = stream, f.offload_fraction = 1; }},
      {"host", [](auto& f) { f.site = host, f.offload_fraction = 1; }},
      {"stream and host",
       [](auto& f) {
         f.site = stream, f.offload_fraction = 0.8, f.host_fraction = 0.4;
         f.chunk_parameters = 4096;
       }},
      {"weights streamed", [](auto& f) { f.streamed_weights = 4; }},
      {"nothing stays",
       [](auto& f) {
         f.site = stream, f.offload_fraction = 1, f.host_fraction = 0.5;
         f.streamed_weights = 4, f.recompute_blocks = 2, f.host_inputs = 2;
       }},
      {"few chunks", [](auto& f) { f.chunk_parameters = 1 << 20; }},
  };
}

class RankPlacements : public testing::TestWithParam<std::tuple<DType, bool>> {};

TEST_P(RankPlacements, GiveTheSameBits) {
  const auto [dtype, tied] = GetParam();
  for (const auto& [micro_batches, groups] : {std::pair{4, 4}, std::pair{6, 3}, std::pair{4, 1}}) {
    TrainingSettings settings = settings_of(micro_batches, groups);
    settings.dtype = settings.gradient_type = dtype;
    settings.config.tied = tied;
    const Outcome expected = train_small(settings, 1, kSteps);
    for (const Placement& placement : placements()) {
      TrainingSettings other = settings;
      placement.choose(other.fixed);
      const std::string where =
          fmt::format("{}, M {}, G {}", placement.name, micro_batches, groups);
      expect_same(train_small(other, 1, kSteps), expected, where + ", one rank");
      for (const int ranks : {2, 3}) {
        if (small_scale() && ranks == 3) continue;
        expect_same(train_ranks(other, ranks), expected, where + fmt::format(", {} ranks", ranks));
      }
    }
    if (small_scale()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RankPlacements,
                         testing::Combine(testing::Values(DType::bf16, DType::f32),
                                          testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("{}{}", name_of(std::get<0>(info.param)),
                                              std::get<1>(info.param) ? "Tied" : "");
                         });

// Between steps each rank has all weights, one without a group of its own, too.
TEST(RankEvaluation, IsThatOfOne) {
  const TrainingSettings settings = settings_of(2);
  const auto evaluate = [](const TrainingSettings& own) {
    Runtime runtime(test_device(), 1);
    TrainingRun run(runtime, own);
    initialize(run);
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) {
      run.step(made_up_batches(own, step));
      losses.push_back(run.evaluate(made_up_batches(own, 100).front()).loss_sum);
    }
    run.finish();
    return losses;
  };
  const std::vector<double> expected = evaluate(settings);
  dist::run_ranks(3, [&](dist::Communicator& ranks) {
    TrainingSettings own = settings;
    own.ranks = &ranks;
    EXPECT_EQ(evaluate(own), expected) << "rank " << ranks.rank();
  });
}

// Lanes that are late at random, and memory that is full of NaNs as soon as nobody needs it.
TEST(SlowRanks, GiveTheSameBits) {
  const TrainingSettings settings = settings_of(6, 3);
  const Outcome expected = train_small(settings, 1, kSteps);
  const std::vector<Placement> all = placements();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (small_scale() && i % 3 != 2) continue;
    TrainingSettings other = settings;
    all[i].choose(other.fixed);
    const Outcome found = train_ranks(other, 3, [&](int rank, TrainingSettings& own) {
      own.disturbance = {.slow_lanes_seed = static_cast<std::uint64_t>(100 * i + rank + 1),
                         .poison = true,
                         .threads = rank == 1};
    });
    expect_same(found, expected, all[i].name);
  }
}

// Each rank places what it has by its own choices; only where blocks are cut is one choice.
TEST(RanksWithPlacementsOfTheirOwn, GiveTheSameBits) {
  const TrainingSettings settings = settings_of(4);
  const Outcome expected = train_small(settings, 1, kSteps);
  const std::vector<Placement> all = placements();
  const Outcome found = train_ranks(settings, 3, [&](int rank, TrainingSettings& own) {
    all[static_cast<std::size_t>(2 * rank)].choose(own.fixed);
    own.fixed.chunk_parameters = rank == 0 ? std::optional<std::int64_t>(8192) : std::nullopt;
  });
  expect_same(found, expected, "resident, host, streamed weights");
}

// Bytes on the network, by a formula of its own: each plane but the owner's crosses it once, and
// each weight once for every other rank.
TEST(RankBytes, AreThoseOfTheFormula) {
  for (const int groups : {6, 3}) {
    for (const int count : {2, 3}) {
      const TrainingSettings settings = settings_of(6, groups);
      List<Bytes> sent(count);
      List<std::int64_t> owned(count);
      std::int64_t parameters = 0, squares = 0;
      dist::run_ranks(count, [&](dist::Communicator& all) {
        // What the run itself splits off is the lane's: it is counted where it is made.
        TrainingSettings own = settings;
        own.ranks = &all;
        Runtime runtime(test_device(), 1);
        TrainingRun run(runtime, own);
        initialize(run);
        const Bytes before = run.network_bytes();
        for (int step = 0; step < kSteps; ++step) run.step(made_up_batches(own, step));
        run.finish();
        sent[all.rank()] = run.network_bytes() - before;
        for (const plan::Chunk& chunk : run.plan().program.chunks) {
          if (chunk.owner == all.rank()) owned[all.rank()] += chunk.count;
        }
        if (all.rank() == 0) {
          parameters = run.plan().workload.parameters();
          squares = (run.plan().workload.report_bytes() - 8 * settings.accumulate) / 8;
        }
      });
      const Bytes plane = groups == 6 ? 2 : 4;
      Bytes total = 0, expected = 0;
      for (int r = 0; r < count; ++r) {
        total += sent[r];
        // Groups r, r + count, ... send what this rank does not own; weights go to all others.
        const int own_groups = (groups - r + count - 1) / count;
        expected += own_groups * (parameters - owned[r]) * plane + (count - 1) * owned[r] * 2;
      }
      expected += (count - 1) * 8 * (settings.accumulate + squares);
      EXPECT_EQ(total, kSteps * expected) << groups << " groups, " << count << " ranks";
    }
  }
}

// One that does not come to its end keeps nobody waiting, and is named.
TEST(RanksThatFail, AreTold) {
  const TrainingSettings settings = settings_of(3);
  std::mutex mutex;
  std::vector<std::string> told;
  dist::run_ranks(3, [&](dist::Communicator& ranks) {
    try {
      TrainingSettings own = settings;
      own.ranks = &ranks;
      Runtime runtime(test_device(), 1);
      TrainingRun run(runtime, own);
      initialize(run);
      if (ranks.rank() == 1) return ranks.fail("its drive has failed");
      for (int step = 0; step < 4; ++step) run.step(made_up_batches(own, step));
      run.finish();
    } catch (const dist::RankError& error) {
      std::lock_guard lock(mutex);
      told.emplace_back(error.what());
    }
  });
  ASSERT_EQ(told.size(), 2u);
  for (const std::string& text : told) {
    EXPECT_NE(text.find("rank 1 on host"), std::string::npos) << text;
    EXPECT_NE(text.find("its drive has failed"), std::string::npos) << text;
  }
}

TEST(RanksThatDiffer, AreRefusedByName) {
  std::mutex mutex;
  std::vector<std::string> told;
  dist::run_ranks(3, [&](dist::Communicator& ranks) {
    TrainingSettings own = settings_of(ranks.rank() == 2 ? 4 : 3);
    own.ranks = &ranks;
    Runtime runtime(test_device(), 1);
    try {
      const TrainingRun run(runtime, own);
    } catch (const ConfigError& error) {
      std::lock_guard lock(mutex);
      told.emplace_back(error.what());
    }
  });
  ASSERT_EQ(told.size(), 3u);
  for (const std::string& text : told) {
    EXPECT_NE(text.find("rank 2 on host"), std::string::npos) << text;
    EXPECT_NE(text.find("micro-batches"), std::string::npos) << text;
  }
}

// A norm that is not finite is the same everywhere: all ranks stop with the same words, and states
// and weights are still whole.
TEST(RanksWhoseNormIsNotFinite, StopAlike) {
  std::mutex mutex;
  std::vector<std::string> told;
  std::vector<std::string> before, after;
  dist::run_ranks(2, [&](dist::Communicator& ranks) {
    TrainingSettings own = settings_of(2);
    own.ranks = &ranks;
    Runtime runtime(test_device(), 1);
    TrainingRun run(runtime, own);
    initialize(run);
    run.step(made_up_batches(own, 0));
    run.finish();
    const std::vector<float> spoiled(1, std::numeric_limits<float>::infinity());
    run.store().write_master(0, 0, spoiled);
    std::string digest, now, text;
    run.store().together([&] { digest = run.store().moments_digest(); });
    try {
      run.step(made_up_batches(own, 1));
    } catch (const NumericsError& error) {
      text = error.what();
    }
    EXPECT_TRUE(run.settle());
    run.store().together([&] { now = run.store().moments_digest(); });
    std::lock_guard lock(mutex);
    told.push_back(text);
    before.push_back(digest);
    after.push_back(now);
  });
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0].find("the gradient norm is not finite"), std::string::npos) << told[0];
  EXPECT_EQ(told[0], told[1]);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace ebb::engine
