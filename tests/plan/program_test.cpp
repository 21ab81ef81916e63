// Properties of training programs that must hold for every workload and every choice.
#include "plan/training_program.h"

#include <gtest/gtest.h>

#include <map>

#include "plan/evaluation_program.h"
#include "plan/layout.h"
#include "plan/program_check.h"
#include "plan/random_work.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

constexpr Bytes kRoomy = Bytes{1} << 50;
constexpr std::uint64_t kSeeds = 300;

// By block: whether its weights come up for every pass.
std::vector<bool> weights_away(const Workload& work, const Choices& choices) {
  std::vector<bool> away;
  for (const Tier home : weight_homes(work, choices)) away.push_back(home != Tier::device);
  return away;
}

// What the passes read of a block's weights, and how often for each micro-batch: a layer runs
// forward and backward, the embedding also as a tied head, the head once. By pieces the head goes
// over the vocabulary twice, and its norm begins and ends it.
struct WeightReads {
  TensorRange of;
  std::int64_t times = 0;
};
std::vector<WeightReads> weight_reads(const Workload& work, const Choices& choices, std::size_t b) {
  const Block& block = work.blocks[b];
  const bool tied = work.tied_sum > 0;
  if (!is_cut(block, choices)) {
    const std::int64_t times = block.kind == BlockKind::layer               ? 2
                               : block.kind == BlockKind::embedding && tied ? 2
                                                                            : 1;
    return {{{0, block.parameters}, times}};
  }
  const std::size_t vocabulary = work.blocks.back().pieces.size() - 1;
  std::vector<WeightReads> reads;
  for (std::size_t p = 0; p < block.pieces.size(); ++p) {
    const BlockPiece& piece = block.pieces[p];
    if (piece.count == 0) continue;
    const bool positions = block.kind == BlockKind::embedding && p >= vocabulary;
    const std::int64_t times = block.kind == BlockKind::head ? 2 : tied && !positions ? 3 : 1;
    reads.push_back({{piece.first, piece.count}, times});
  }
  return reads;
}

// Bytes of each fp32 gradient of a tied table's piece that leaves the device, to a tier.
std::vector<Bytes> tied_sums_away(const Workload& work, const Choices& choices,
                                  const std::vector<Chunk>& chunks, Tier to) {
  const Block& table = work.blocks.front();
  std::vector<Bytes> sums;
  if (work.tied_sum == 0 || !is_cut(table, choices)) return sums;
  for (std::size_t p = 0; p + 1 < work.blocks.back().pieces.size(); ++p) {
    const BlockPiece& piece = table.pieces[p];
    bool all = true;
    for (const Chunk& chunk : chunks) {
      const bool within =
          chunk.block == 0 && chunk.first >= piece.first && chunk.first < piece.first + piece.count;
      all = all && (!within || chunk.sums == to);
    }
    if (all) sums.push_back(4 * piece.count);
  }
  return sums;
}

template <class Check>
void for_random_programs(Check check) {
  for (std::uint64_t seed = 0; seed < fewer_if_small(kSeeds); ++seed) {
    const Workload work = random_workload(seed);
    const Choices choices = random_choices(seed, work);
    SCOPED_TRACE(describe(seed, work, choices));
    check(seed, work, choices);
    if (testing::Test::HasFailure()) return;
  }
}

// A budget that no order keeps, the least that the barest order keeps, more, and room for all.
std::vector<Bytes> budgets(std::uint64_t seed, const Workload& work, const Choices& choices) {
  const Bytes barest = peak_alive(build_training(work, choices, {0}), Tier::device);
  const Bytes most = peak_alive(build_training(work, choices, {kRoomy}), Tier::device);
  Dice dice(seed ^ 0xb1d6e7);
  return {0, barest, barest + dice.between(0, std::max<Bytes>(0, most - barest)), kRoomy};
}

TEST(TrainingProgram, IsFreeOfRacesAndOverlapsWhateverIsChosen) {
  for_random_programs([](std::uint64_t seed, const Workload& work, const Choices& choices) {
    const bool early = seed % 2 == 0;
    for (const Bytes budget : budgets(seed, work, choices)) {
      for (const End gradients : {End::low, End::high}) {
        const Tide tide{.budget = budget, .early = early, .gradients = gradients};
        EXPECT_EQ(check_all(build_training(work, choices, tide)), "")
            << "budget " << budget << ", early " << early << ", gradients from the "
            << (gradients == End::low ? "low end" : "high end");
      }
    }
  });
}

// States whose home is on a tier without addresses: the rules know nothing of it.
TEST(TrainingProgram, IsFreeOfRacesWithATierThatNobodyKnows) {
  for (std::uint64_t seed = 0; seed < fewer_if_small(kSeeds); ++seed) {
    Workload work = random_workload(seed);
    work.topology = with_shelf(seed % 3 == 0 ? 0 : seed % 3 == 1 ? 8192 : kMiB);
    for (Block& block : work.blocks) {
      if (seed % 2 == 0) block.states = {{4096, 64}};  // of whole grains
    }
    Choices choices = random_choices(seed, work);
    choices.state_home = kShelf;
    SCOPED_TRACE(describe(seed, work, choices));
    Dice dice(seed);
    const Bytes budget = dice.pick<Bytes>({0, 100'000, kRoomy});
    const Program program =
        build_training(work, choices, {.budget = budget, .host_budget = budget});
    ASSERT_EQ(check_all(program), "");
    // What lives there comes and goes once a step, in whole grains.
    Bytes states = 0, taken = 0, put = 0;
    for (const Chunk& chunk : program.chunks) {
      if (chunk.home == kShelf) states += align_up(state_bytes(work, chunk), 4096);
    }
    for (const Task& task : program.tasks) {
      const LaneInfo& lane = (*program.topology)[task.lane];
      if (lane.name == "take") taken += task.moved;
      if (lane.name == "put") put += task.moved;
    }
    ASSERT_EQ(taken, states);
    ASSERT_EQ(put, states);
  }
}

Bytes in_grains(Bytes bytes) { return align_up(bytes, 4096); }

// What is read from the shelf and written to it, from what the design says and not from the
// builder: each transfer in whole grains.
std::pair<Bytes, Bytes> expected_on_shelf(const Workload& work, const Choices& choices,
                                          const std::vector<Chunk>& chunks) {
  const Bytes micro = work.micro_batches;
  const std::vector<Tier> homes = weight_homes(work, choices);
  Bytes read = 0, written = 0;
  for (const Chunk& chunk : chunks) {
    const auto b = static_cast<std::size_t>(chunk.block);
    if (chunk.home == kShelf) {
      read += in_grains(state_bytes(work, chunk));
      written += in_grains(state_bytes(work, chunk));
    }
    Bytes weights = 0;
    for (const Range& plane : work.blocks[b].weights.ranges(chunk.count, 0, chunk.count)) {
      weights += in_grains(plane.bytes);
    }
    if (homes[b] == kShelf) {  // for every pass, for the update, and home again
      Bytes passes = 0;
      for (const WeightReads& reads : weight_reads(work, choices, b)) {
        const std::int64_t at = chunk.first - reads.of.first;
        if (at >= 0 && at < reads.of.count) passes = reads.times;
      }
      read += (micro * passes + 1) * weights;
      written += weights;
    }
    if (chunk.sums != kShelf) continue;
    // The first gradient goes there; of three and more of two bytes the second, too. Each that
    // follows brings the sum, of one plane or two, and takes it back, the last one plane alone.
    const Bytes gradient = in_grains(chunk.count * work.gradient_bytes);
    const bool two = micro > 2 && work.gradient_bytes == 2;
    const Bytes planes = two ? 2 : 1, adds = micro - planes;
    written += (planes + adds * planes - (two ? 1 : 0)) * gradient;
    read += (adds * planes + 1) * gradient;
  }
  for (const Bytes sum : tied_sums_away(work, choices, chunks, kShelf)) {
    read += in_grains(sum) * micro;
    written += in_grains(sum) * micro;
  }
  const Bytes inputs = choices.disk_inputs * in_grains(work.input) * micro;
  return {read + inputs, written + inputs};
}

// States, weights, sums and inputs below host memory, alone and mixed.
TEST(TrainingProgram, IsFreeOfRacesWithAllOfItBelowHostMemory) {
  for (std::uint64_t seed = 0; seed < fewer_if_small(kSeeds); ++seed) {
    Workload work = random_workload(seed);
    work.topology = with_shelf(seed % 3 == 0 ? 0 : seed % 3 == 1 ? 8192 : kMiB);
    const Choices choices = with_some_below(seed, work, random_choices(seed, work));
    SCOPED_TRACE(describe(seed, work, choices));
    for (const Bytes budget : {Bytes{0}, Bytes{100'000}, kRoomy}) {
      const Tide tide{.budget = budget,
                      .host_budget = budget,
                      .leaving_budget = seed % 4 < 2 ? budget : 0,
                      .early = seed % 2 == 0};
      const Program program = build_training(work, choices, tide);
      ASSERT_EQ(check_all(program), "") << "budget " << budget;
      Bytes read = 0, written = 0;
      for (const Task& task : program.tasks) {
        const LaneInfo& lane = (*program.topology)[task.lane];
        if (lane.name == "take") read += task.moved;
        if (lane.name == "put") written += task.moved;
      }
      const auto expected = expected_on_shelf(work, choices, program.chunks);
      ASSERT_EQ(read, expected.first) << "budget " << budget;
      ASSERT_EQ(written, expected.second) << "budget " << budget;
    }
  }
}

// What waits to be written keeps its bytes where others leave some, and the peak is what it was.
TEST(TrainingProgram, WhatLeavesForASlowTierKeepsItsBytesWhileThereIsRoom) {
  std::int64_t longer = 0;
  for (std::uint64_t seed = 0; seed < fewer_if_small(kSeeds); ++seed) {
    Workload work = random_workload(seed);
    work.topology = with_shelf(8192);
    const Choices choices = with_some_below(seed, work, random_choices(seed, work));
    SCOPED_TRACE(describe(seed, work, choices));
    const Program at_once = build_training(work, choices, {.budget = kRoomy});
    const Program kept =
        build_training(work, choices, {.budget = kRoomy, .leaving_budget = kRoomy});
    ASSERT_EQ(peak_alive(kept, Tier::host), peak_alive(at_once, Tier::host));
    ASSERT_EQ(kept.objects.size(), at_once.objects.size());
    for (std::size_t i = 0; i < kept.objects.size(); ++i) {
      const Object &before = at_once.objects[i], &now = kept.objects[i];
      ASSERT_GE(now.held, before.held) << now.name;
      if (now.held == before.held) continue;
      ++longer;
      const Task& last = kept.tasks[static_cast<std::size_t>(now.last)];
      ASSERT_TRUE(last.is_transfer());
      ASSERT_EQ(kept[last.find(Role::destination)->object].tier, kShelf) << now.name;
    }
  }
  EXPECT_GT(longer, 0);
}

// What comes from a tier beyond host memory has a lane of its own on the link, where there is one:
// the others do not wait for it.
TEST(TrainingProgram, WhatComesFromBeyondHasItsOwnLane) {
  Topology made = *with_shelf(8192);
  const Lane up = made.add(LaneInfo{
      .name = "through up", .from = Tier::host, .to = Tier::device, .traffic = Traffic::through});
  const auto topology = std::make_shared<const Topology>(std::move(made));
  Bytes through = 0;
  for (std::uint64_t seed = 0; seed < fewer_if_small(kSeeds); ++seed) {
    Workload work = random_workload(seed);
    work.topology = topology;
    const Choices choices = with_some_below(seed, work, random_choices(seed, work));
    SCOPED_TRACE(describe(seed, work, choices));
    const Program program = build_training(work, choices, {.budget = kRoomy});
    ASSERT_EQ(check_all(program), "");
    for (const Task& task : program.tasks) {
      if (!task.is_transfer()) continue;
      const bool staged = program[task.find(Role::source)->object].name == "staging" &&
                          program[task.find(Role::destination)->object].tier == Tier::device;
      ASSERT_EQ(task.lane == up, staged);
      if (staged) through += task.moved;
    }
  }
  EXPECT_GT(through, 0);
}

// Two bulk lanes each way: both are used, and nothing else changes.
TEST(TrainingProgram, LanesOfALinkTakeTurns) {
  const auto two_lanes = [] {
    Topology made = *device_and_host();
    LaneInfo up = made[Lane::up], down = made[Lane::down];
    up.name = "up too";
    down.name = "down too";
    made.add(up);
    made.add(down);
    return std::make_shared<const Topology>(std::move(made));
  }();
  for (std::uint64_t seed = 0; seed < fewer_if_small(kSeeds); ++seed) {
    Workload work = random_workload(seed);
    const Choices choices = random_choices(seed, work);
    SCOPED_TRACE(describe(seed, work, choices));
    const auto moved = [&](const Program& program) {
      std::map<std::string, Bytes> bytes;
      for (const Task& task : program.tasks)
        bytes[(*program.topology)[task.lane].name] += task.moved;
      return bytes;
    };
    auto one = moved(build_training(work, choices, {kRoomy}));
    work.topology = two_lanes;
    const Program program = build_training(work, choices, {kRoomy});
    ASSERT_EQ(check_all(program), "");
    auto two = moved(program);
    EXPECT_EQ(two["up"] + two["up too"], one["up"]);
    EXPECT_EQ(two["down"] + two["down too"], one["down"]);
    std::int64_t streamed = 0;
    for (const Chunk& chunk : program.chunks) streamed += chunk.site() == Site::stream;
    if (streamed > 3) {
      EXPECT_GT(std::min(two["up"], two["up too"]), 0);
      EXPECT_GT(std::min(two["down"], two["down too"]), 0);
    }
  }
}

// As many objects of a stream are alive at once as its depth says, where there are as many.
TEST(TrainingProgram, StreamsAreAsDeepAsTheyShouldBe) {
  for_random_programs([](std::uint64_t, const Workload& work, const Choices& choices) {
    const Program program = build_training(work, choices, {kRoomy});
    std::vector<std::vector<const Object*>> streams(program.streams.size());
    for (const Object& object : program.objects) {
      if (object.stream >= 0 && object.first >= 0) {
        streams[static_cast<std::size_t>(object.stream)].push_back(&object);
      }
    }
    for (auto& members : streams) {
      std::sort(members.begin(), members.end(),
                [](const Object* a, const Object* b) { return a->first < b->first; });
      const auto depth = static_cast<std::size_t>(choices.depth);
      for (std::size_t i = 0; i + depth - 1 < members.size(); ++i) {
        EXPECT_GE(members[i]->held, members[i + depth - 1]->first) << members[i]->name;
      }
    }
  });
}

// The bytes each lane moves, from what the design says and not from the builder.
std::map<Lane, Bytes> expected_bytes(const Workload& work, const Choices& choices,
                                     const std::vector<Chunk>& chunks) {
  const Bytes micro = work.micro_batches;
  const std::vector<bool> away = weights_away(work, choices);
  Bytes up = 0, down = 0;
  for (const Chunk& chunk : chunks) {
    const auto b = static_cast<std::size_t>(chunk.block);
    Bytes weights = 0;
    for (const Range& plane : work.blocks[b].weights.ranges(chunk.count, 0, chunk.count)) {
      weights += plane.bytes;
    }
    const Bytes gradient = chunk.count * work.gradient_bytes;
    const bool leaves = chunk.site() == Site::host || b + choices.host_sums >= work.blocks.size();
    if (leaves) down += micro * gradient;
    if (chunk.site() == Site::host) {
      up += away[b] ? 0 : weights;
      continue;
    }
    const Bytes states = chunk.site() == Site::stream ? state_bytes(work, chunk) : 0;
    up += states + (leaves ? gradient : 0) + (away[b] ? weights : 0);
    down += states + (away[b] ? weights : 0);
  }
  for (std::size_t b = 0; b < away.size(); ++b) {
    if (!away[b]) continue;
    const Planes& planes = work.blocks[b].weights;
    for (const auto& [of, times] : weight_reads(work, choices, b)) {
      Bytes bytes = 0;
      for (const Range& plane : planes.ranges(of.count, 0, of.count)) bytes += plane.bytes;
      // All of a block comes as one, with what lies between its planes.
      if (of.count == work.blocks[b].parameters) bytes = planes.bytes(of.count);
      up += micro * times * bytes;
    }
  }
  for (const Bytes sum : tied_sums_away(work, choices, chunks, Tier::host)) {
    up += micro * sum;
    down += micro * sum;
  }
  const Bytes inputs = choices.host_inputs * work.input * micro;
  Bytes sums_of_squares = 0;
  for (const Block& block : work.blocks) {
    for (const TensorRange& tensor : block.tensors) {
      sums_of_squares += (tensor.count + work.norm_block - 1) / work.norm_block;
    }
  }
  return {{Lane::up, up + inputs},
          {Lane::down, down + inputs},
          {Lane::express_up, work.batch * micro + 8},
          {Lane::express_down, 8 * (micro + sums_of_squares)}};
}

TEST(TrainingProgram, MovesWhatTheFormulasSay) {
  for_random_programs([](std::uint64_t, const Workload& work, const Choices& choices) {
    const Program program = build_training(work, choices, {kRoomy});
    std::map<Lane, Bytes> moved;
    for (const Task& task : program.tasks) moved[task.lane] += task.moved;
    for (const auto& [lane, bytes] : expected_bytes(work, choices, program.chunks)) {
      EXPECT_EQ(moved[lane], bytes) << (*program.topology)[lane].name;
    }
  });
}

TEST(TrainingProgram, RunsEveryBlockAndChunkAsOftenAsItShould) {
  for_random_programs([](std::uint64_t, const Workload& work, const Choices& choices) {
    const Program program = build_training(work, choices, {kRoomy});
    std::map<Op, std::int64_t> count, by_cpu;
    std::map<std::pair<Lane, Purpose>, std::int64_t> transfers;
    for (const Task& task : program.tasks) {
      if (task.is_transfer()) {
        ++transfers[{task.lane, program[task.find(Role::destination)->object].purpose}];
      } else {
        ++(task.lane == Lane::host ? by_cpu : count)[task.op];
      }
    }
    std::map<Site, std::int64_t> chunks;
    const std::vector<bool> away = weights_away(work, choices);
    std::int64_t weights_up = 0, weights_down = 0, summed_by_cpu = 0;
    for (const Chunk& chunk : program.chunks) {
      const auto b = static_cast<std::size_t>(chunk.block);
      const auto planes =
          static_cast<std::int64_t>(work.blocks[b].weights.ranges(chunk.count, 0, 0).size());
      ++chunks[chunk.site()];
      summed_by_cpu += chunk.sums == Tier::host;
      // Updated where they do not live.
      weights_up += (chunk.place == Place::cpu) != away[b] ? planes : 0;
      weights_down += chunk.place != Place::cpu && away[b] ? planes : 0;
    }
    for (std::size_t b = 0; b < away.size(); ++b) {
      if (!away[b]) continue;
      const auto planes = static_cast<std::int64_t>(work.blocks[b].weights.ranges(0, 0, 0).size());
      for (const auto& [of, times] : weight_reads(work, choices, b)) {
        const bool as_one = of.count == work.blocks[b].parameters;
        weights_up += work.micro_batches * times * (as_one ? 1 : planes);
      }
    }
    const auto pieces_of = [&](std::size_t b) {
      const bool cut = is_cut(work.blocks[b], choices);
      return cut ? static_cast<std::int64_t>(work.blocks[b].pieces.size()) : 0;
    };
    const std::int64_t in_embedding = pieces_of(0), in_head = pieces_of(work.blocks.size() - 1);
    const auto sums_away =
        static_cast<std::int64_t>(tied_sums_away(work, choices, program.chunks, Tier::host).size());
    const auto layers = work.layers();
    const std::int64_t micro = work.micro_batches;
    EXPECT_EQ((transfers[{Lane::express_up, Purpose::batch}]), micro);
    EXPECT_EQ(count[Op::embed], std::max<std::int64_t>(1, in_embedding) * micro);
    EXPECT_EQ(count[Op::head], in_head > 0 ? 0 : micro);
    EXPECT_EQ(count[Op::head_begin], in_head > 0 ? micro : 0);
    EXPECT_EQ(count[Op::head_statistics], in_head > 0 ? (in_head - 1) * micro : 0);
    EXPECT_EQ(count[Op::head_gradients], in_head > 0 ? (in_head - 1) * micro : 0);
    EXPECT_EQ(count[Op::head_end], in_head > 0 ? micro : 0);
    EXPECT_EQ(count[Op::embed_backward], std::max<std::int64_t>(1, in_embedding) * micro);
    EXPECT_EQ(count[Op::forward], layers * micro);
    EXPECT_EQ(count[Op::backward], layers * micro);
    EXPECT_EQ(count[Op::recompute], choices.recompute_blocks * micro);
    EXPECT_EQ((transfers[{Lane::down, Purpose::activations}]), choices.host_inputs * micro);
    EXPECT_EQ((transfers[{Lane::up, Purpose::activations}]), choices.host_inputs * micro);
    EXPECT_EQ((transfers[{Lane::up, Purpose::states}]), chunks[Site::stream]);
    EXPECT_EQ((transfers[{Lane::down, Purpose::states}]), chunks[Site::stream]);
    EXPECT_EQ(count[Op::update], chunks[Site::stream] + chunks[Site::resident]);
    EXPECT_EQ((transfers[{Lane::down, Purpose::gradients}]), (summed_by_cpu + sums_away) * micro);
    EXPECT_EQ((transfers[{Lane::up, Purpose::gradients}]),
              summed_by_cpu - chunks[Site::host] + sums_away * micro);
    // The first gradient is the sum until the second comes; two of two bytes wait for the third.
    const std::int64_t taken_as_they_are = work.gradient_bytes == 2 ? 3 : 2;
    EXPECT_EQ(by_cpu[Op::add_gradient],
              summed_by_cpu * std::max<std::int64_t>(0, micro - taken_as_they_are));
    EXPECT_EQ(by_cpu[Op::finish_gradient], micro > 1 ? summed_by_cpu : 0);
    EXPECT_EQ(by_cpu[Op::update], chunks[Site::host]);
    EXPECT_EQ((transfers[{Lane::up, Purpose::weights}]), weights_up);
    EXPECT_EQ((transfers[{Lane::down, Purpose::weights}]), weights_down);
    EXPECT_EQ(by_cpu[Op::norm], 1);
  });
}

// A transfer that brings a chunk's state to the device.
bool is_state_fetch(const Program& program, const Task& task) {
  return task.is_transfer() && task.lane == Lane::up &&
         program[task.find(Role::destination)->object].purpose == Purpose::states;
}

TEST(Tide, BringsAllStatesInBeforeTheNormWhenThereIsRoom) {
  for_random_programs([](std::uint64_t, const Workload& work, const Choices& choices) {
    const Program program = build_training(work, choices, {kRoomy});
    std::size_t norm = 0;
    while (program.tasks[norm].op != Op::norm) ++norm;
    for (std::size_t t = norm; t < program.tasks.size(); ++t) {
      EXPECT_FALSE(is_state_fetch(program, program.tasks[t]))
          << name_task(program, static_cast<TaskId>(t));
    }
  });
}

TEST(Tide, StaysWithinTheBudgetWhenTheBarestOrderDoes) {
  for_random_programs([](std::uint64_t seed, const Workload& work, const Choices& choices) {
    const Bytes barest = peak_alive(build_training(work, choices, {0}), Tier::device);
    for (const Bytes budget : budgets(seed, work, choices)) {
      if (budget < barest) continue;
      const Bytes peak = peak_alive(build_training(work, choices, {budget}), Tier::device);
      EXPECT_LE(peak, budget) << "the barest order needs " << barest;
    }
  });
}

TEST(Tide, ComesNoLaterWithMoreRoom) {
  for_random_programs([](std::uint64_t seed, const Workload& work, const Choices& choices) {
    const auto positions = [&](Bytes budget) {
      // How many other tasks are issued before each fetch, by chunk.
      std::map<int, int> before;
      int others = 0;
      const Program program = build_training(work, choices, {budget});
      for (const Task& task : program.tasks) {
        if (is_state_fetch(program, task)) {
          before[task.chunk] = others;
        } else {
          ++others;
        }
      }
      return before;
    };
    const auto all = budgets(seed, work, choices);
    const auto latest = positions(all.front());
    const auto earliest = positions(all.back());
    for (const Bytes budget : all) {
      for (const auto& [chunk, at] : positions(budget)) {
        EXPECT_LE(at, latest.at(chunk)) << "chunk " << chunk << ", budget " << budget;
        EXPECT_GE(at, earliest.at(chunk)) << "chunk " << chunk << ", budget " << budget;
      }
    }
  });
}

TEST(EvaluationProgram, FitsTheArenasOfTrainingAndLeavesWhatIsPersistent) {
  for_random_programs([](std::uint64_t, const Workload& work, const Choices& choices) {
    Plan plan{.workload = work, .choices = choices, .profile = rough_cpu_profile(2)};
    plan.program = build_training(work, choices, {});
    plan.layout = lay_out(plan.program);
    const Evaluation evaluation = plan_evaluation(plan);
    const Program& program = evaluation.program;
    EXPECT_EQ(check_uses(program), "");
    EXPECT_EQ(check_written_first(program), "");
    EXPECT_EQ(check_lanes(program), "");
    EXPECT_EQ(check_addresses(program, evaluation.layout), "");
    EXPECT_EQ(check_waits(program), "");
    EXPECT_EQ(check_races(program, evaluation.layout), "");
    EXPECT_GT(evaluation.seconds, 0);
    for (std::size_t i = 0; i < plan.program.objects.size(); ++i) {
      const Object& object = plan.program.objects[i];
      if (!object.persistent) continue;
      ASSERT_LT(i, program.objects.size());
      EXPECT_EQ(evaluation.layout.offsets[i], plan.layout.offsets[i]) << object.name;
      for (const Task& task : program.tasks) {
        for (const Use& use : task.uses) {
          const bool own =
              use.object == program.persistent.report || use.object == program.persistent.scratch;
          if (static_cast<std::size_t>(use.object) == i && !own) {
            EXPECT_EQ(use.access, Access::read) << object.name;
          }
        }
      }
    }
  });
}

// The checker itself must see what it is there to see.
TEST(ProgramCheck, SeesRacesThatMissingWaitsMake) {
  const Workload work = random_workload(3);
  Choices choices{.offload_fraction = 1, .host_fraction = 0.4, .chunk_parameters = 500};
  Program program = build_training(work, choices, {kRoomy});
  const Layout layout = lay_out(program);
  add_waits(program, layout);
  ASSERT_EQ(check_races(program, layout), "");
  int needed = 0, all = 0;
  for (Task& task : program.tasks) {
    for (std::size_t w = 0; w < task.waits.size(); ++w) {
      const std::vector<Wait> kept = task.waits;
      task.waits.erase(task.waits.begin() + static_cast<std::ptrdiff_t>(w));
      ++all;
      needed += check_races(program, layout).empty() ? 0 : 1;
      task.waits = kept;
    }
  }
  // Some waits are implied by others; most are not.
  EXPECT_GT(needed, all / 4) << all << " waits";
}

}  // namespace
}  // namespace ebb::plan
