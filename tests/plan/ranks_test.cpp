// Programs of several ranks: each is sound by itself, and together they come to their ends.
#include "plan/ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/exchange.h"
#include "plan/layout.h"
#include "plan/program_check.h"
#include "plan/random_work.h"
#include "plan/training_program.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

TEST(Ranks, HaveEveryMicroBatchOnce) {
  for (std::int64_t micro_batches = 1; micro_batches <= 12; ++micro_batches) {
    for (std::int64_t groups = 1; groups <= micro_batches; ++groups) {
      if (micro_batches % groups != 0) continue;
      for (int count = 1; count <= 5; ++count) {
        SCOPED_TRACE(fmt::format("M {}, G {}, {} ranks", micro_batches, groups, count));
        std::set<std::int64_t> seen;
        std::int64_t sent = 0;
        for (int rank = 0; rank < count; ++rank) {
          const Ranks ranks{count, rank, micro_batches, groups};
          std::int64_t before = -1;
          for (std::int64_t m = 0; m < ranks.own_micro_batches(); ++m) {
            const std::int64_t place = ranks.place_of(m);
            EXPECT_GT(place, before);
            EXPECT_EQ(place / ranks.group_size() % count, rank);
            EXPECT_TRUE(seen.insert(place).second) << place;
            before = place;
          }
          std::int64_t rounds = 0;
          for (std::int64_t r = 0; r < ranks.rounds(); ++r) rounds += ranks.has_group(r) ? 1 : 0;
          EXPECT_EQ(rounds, ranks.own_groups());
          if (rank > 0) continue;
          for (std::int64_t r = 0; r < ranks.rounds(); ++r) sent += ranks.senders(r);
        }
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), micro_batches);
        EXPECT_EQ(sent, groups);
      }
    }
  }
}

TEST(Ranks, AreGroupedWhereTheBitsOfOneRankNeedIt) {
  EXPECT_FALSE((Ranks{1, 0, 6, 6}).grouped());
  EXPECT_FALSE((Ranks{1, 0, 6, 1}).grouped());
  EXPECT_TRUE((Ranks{1, 0, 6, 2}).grouped());
  EXPECT_TRUE((Ranks{2, 0, 6, 6}).grouped());
}

// The programs of all ranks of random work. Each rank has choices of its own, but for where blocks
// are cut.
struct Together {
  List<Workload> work;
  List<Program> programs;
};

Together random_ranks(std::uint64_t seed) {
  Dice dice(seed ^ 0x7a4c5);
  Workload work = random_workload(seed);
  const Choices first = random_choices(seed, work);
  Ranks ranks{.count = static_cast<int>(dice.between(1, 4))};
  ranks.groups = dice.between(1, 5);
  ranks.micro_batches = ranks.groups * dice.between(1, 3);
  if (!ranks.grouped()) ranks.count = 2;
  Together all;
  for (ranks.rank = 0; ranks.rank < ranks.count; ++ranks.rank) {
    work.ranks = ranks;
    work.micro_batches = ranks.own_micro_batches();
    work.topology = ranks.count > 1 ? with_network(*device_and_host(), 1e9) : device_and_host();
    Choices own = random_choices(seed + static_cast<std::uint64_t>(1000 * ranks.rank), work);
    own.chunk_parameters = first.chunk_parameters;
    own.vocabulary_cut = first.vocabulary_cut;
    const Bytes budget = dice.pick<Bytes>({0, Bytes{1} << 50});
    Program program = build_training(work, own, {.budget = budget, .early = dice.chance(0.5)});
    add_waits(program, lay_out(program));
    all.work.push_back(work);
    all.programs.push_back(std::move(program));
  }
  return all;
}

template <class Check>
void for_random_ranks(std::uint64_t seeds, Check check) {
  for (std::uint64_t seed = 0; seed < fewer_if_small(seeds); ++seed) {
    const Together all = random_ranks(seed);
    const Ranks& ranks = all.work.front().ranks;
    SCOPED_TRACE(fmt::format("seed {}: M {}, G {}, {} ranks", seed, ranks.micro_batches,
                             ranks.groups, ranks.count));
    check(all);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RankPrograms, AreFreeOfRaces) {
  for_random_ranks(60, [](const Together& all) {
    for (const Program& program : all.programs) EXPECT_EQ(check_all(program), "");
  });
}

// What a task on the network sends to a peer, or expects of it.
struct Message {
  int peer = 0;
  bool comes = false;
  Bytes bytes = 0;
};

List<Message> messages_of(const Together& all, int rank, const Task& task) {
  const Workload& work = all.work[rank];
  const Program& program = all.programs[rank];
  List<int> chunks;
  for (int c = 0; c < static_cast<int>(program.chunks.size()); ++c) {
    const Chunk& chunk = program.chunks[c];
    if (chunk.block != task.block) continue;
    if (task.piece >= 0) {
      const BlockPiece& piece = work.blocks[task.block].pieces[task.piece];
      if (chunk.first < piece.first || chunk.first >= piece.first + piece.count) continue;
    }
    chunks.push_back(c);
  }
  List<Message> messages;
  const auto to_all = [&](int owner, Bytes bytes) {
    for (int peer = 0; peer < work.ranks.count; ++peer) {
      if (peer == rank) continue;
      if (owner == rank) messages.push_back({peer, false, bytes});
      if (owner == peer) messages.push_back({peer, true, bytes});
    }
  };
  switch (task.op) {
    case Op::exchange_gradients: {
      const std::int64_t begin =
          task.piece < 0 ? 0 : work.blocks[task.block].pieces[task.piece].first;
      const std::int64_t round = task.micro / work.ranks.group_size();
      for (const PlaneMessage& each : plane_messages(work, program.chunks, chunks, begin, round)) {
        messages.push_back({each.peer, each.comes, each.range.bytes});
      }
      break;
    }
    case Op::gather_report:
      for (int owner = 0; owner < work.ranks.count; ++owner) to_all(owner, 1);
      break;
    case Op::gather_weights:
      for (const int c : chunks) to_all(program.chunks[c].owner, program.chunks[c].count);
      break;
    default: ADD_FAILURE() << "a task on the network that nobody knows";
  }
  return messages;
}

TEST(RankPrograms, SendWhatTheOthersExpect) {
  for_random_ranks(300, [](const Together& all) {
    const int count = all.work.front().ranks.count;
    std::map<std::pair<int, int>, std::vector<Bytes>> sent, expected;
    for (int rank = 0; rank < count; ++rank) {
      const Program& program = all.programs[rank];
      const auto network = program.topology->network();
      for (const Task& task : program.tasks) {
        if (!network || task.lane != *network) continue;
        Bytes out = 0, in = 0;
        for (const Message& each : messages_of(all, rank, task)) {
          if (each.comes) {
            expected[{each.peer, rank}].push_back(each.bytes);
          } else {
            sent[{rank, each.peer}].push_back(each.bytes);
          }
          (each.comes ? in : out) += each.bytes;
        }
        EXPECT_GT(out + in, 0);
        if (task.op == Op::exchange_gradients) {
          EXPECT_EQ(task.moved, std::max(out, in));
        }
      }
    }
    EXPECT_EQ(sent, expected);
  });
}

// Lanes of all ranks beside each other, which know their order, their waits and each other's
// messages alone: a message has arrived when both its ends have been reached.
class AllLanes {
 public:
  explicit AllLanes(const Together& all) : all_(all) {
    for (const Program& program : all.programs) {
      Rank rank;
      rank.lanes.resize(program.topology->lanes.size());
      rank.ends.resize(program.tasks.size(), 0);
      for (TaskId id = 0; id < static_cast<TaskId>(program.tasks.size()); ++id) {
        rank.lanes[program.tasks[id].lane.index].tasks.push_back(id);
      }
      ranks_.push_back(std::move(rank));
    }
  }

  // Whether all come to the end of so many steps.
  bool run(int steps) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
        for (LaneState& lane : ranks_[r].lanes) {
          while (go_on(r, lane, steps)) moved = true;
        }
      }
    }
    for (const Rank& rank : ranks_) {
      for (const LaneState& lane : rank.lanes) {
        if (!lane.tasks.empty() && lane.step < steps) return false;
      }
    }
    return true;
  }

 private:
  struct LaneState {
    List<TaskId> tasks{};
    std::size_t next = 0;
    int step = 0;
    bool reached = false;  // the messages of its next task have been offered
  };
  struct Rank {
    List<LaneState> lanes{};
    List<int> ends{};  // by task: how often it has ended
  };

  bool go_on(int r, LaneState& lane, int steps) {
    if (lane.tasks.empty() || lane.step == steps) return false;
    const Program& program = all_.programs[r];
    const TaskId id = lane.tasks[lane.next];
    for (const Wait& wait : program.tasks[id].waits) {
      if (ranks_[r].ends[wait.task] <= lane.step - (wait.previous_step ? 1 : 0)) return false;
    }
    if (program.topology->network() == program.tasks[id].lane && !arrive(r, lane, id)) return false;
    lane.reached = false;
    ++ranks_[r].ends[id];
    if (++lane.next == lane.tasks.size()) {
      lane.next = 0;
      ++lane.step;
    }
    return true;
  }

  bool arrive(int r, LaneState& lane, TaskId id) {
    const List<Message> messages = messages_of(all_, r, all_.programs[r].tasks[id]);
    if (!lane.reached) {
      for (const Message& each : messages) {
        ++(each.comes ? wanted_[{each.peer, r}] : offered_[{r, each.peer}]);
      }
      lane.reached = true;
    }
    // They are taken in order: as many as the other end has come to.
    for (const Message& each : messages) {
      const std::pair way = each.comes ? std::pair(each.peer, r) : std::pair(r, each.peer);
      const auto [own, other] = each.comes ? std::pair(wanted_[way], offered_[way])
                                           : std::pair(offered_[way], wanted_[way]);
      if (other < own) return false;
    }
    return true;
  }

  const Together& all_;
  List<Rank> ranks_;
  std::map<std::pair<int, int>, std::int64_t> offered_, wanted_;  // by sender and receiver
};

TEST(RankPrograms, ComeToTheirEndsTogether) {
  for_random_ranks(300, [](const Together& all) {
    EXPECT_TRUE(AllLanes(all).run(3)) << "ranks wait for each other in a circle";
  });
}

}  // namespace
}  // namespace ebb::plan
