#include "base/thread_pool.h"
#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ebb {
namespace {

class ThreadPoolOf : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, RunsEveryIndexOnce) {
  ThreadPool pool(GetParam());
  for (std::int64_t count : {0, 1, 2, 3, 7, 64, 1000, 10007}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
    pool.parallel_for(count, [&](std::int64_t i, int) { ++runs.at(static_cast<std::size_t>(i)); });
    for (std::size_t i = 0; i < runs.size(); ++i) {
      ASSERT_EQ(runs[i], 1) << "index " << i << " of " << count;
    }
  }
}

TEST_P(ThreadPoolOf, SeesWritesOfAllBodiesAfterTheCall) {
  ThreadPool pool(GetParam());
  std::vector<std::int64_t> squares(5000);  // not atomic: the call's return orders the writes
  for (int round = 0; round < 20; ++round) {
    pool.parallel_for(std::ssize(squares),
                      [&](std::int64_t i, int) { squares[static_cast<std::size_t>(i)] += i * i; });
  }
  for (std::int64_t i = 0; i < std::ssize(squares); ++i) {
    ASSERT_EQ(squares[static_cast<std::size_t>(i)], 20 * i * i) << "index " << i;
  }
}

TEST_P(ThreadPoolOf, RethrowsAndStaysUsable) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    try {
      pool.parallel_for(100, [](std::int64_t i, int) {
        if (i == 30) throw std::runtime_error("index 30");
      });
      FAIL() << "no exception in round " << round;
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "index 30");
    }
    std::atomic<int> runs = 0;
    pool.parallel_for(100, [&](std::int64_t, int) { ++runs; });
    ASSERT_EQ(runs, 100);
  }
}

TEST_P(ThreadPoolOf, ServesSeveralCallersAtOnce) {
  ThreadPool pool(GetParam());
  constexpr int kCallers = 4;
  constexpr std::int64_t kCount = 500;
  std::atomic<int> shared_slots = 0;
  std::vector<std::int64_t> sums(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<bool>> busy(static_cast<std::size_t>(pool.slots()));
        std::atomic<std::int64_t> sum = 0;
        pool.parallel_for(kCount, [&](std::int64_t i, int slot) {
          if (busy.at(static_cast<std::size_t>(slot)).exchange(true)) ++shared_slots;
          sum += i;
          busy[static_cast<std::size_t>(slot)] = false;
        });
        sums[static_cast<std::size_t>(caller)] += sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(shared_slots, 0) << "two bodies of one call ran at once in one slot";
  for (std::int64_t sum : sums) EXPECT_EQ(sum, 20 * kCount * (kCount - 1) / 2);
}

TEST_P(ThreadPoolOf, GivesEachCallerItsOwnException) {
  ThreadPool pool(GetParam());
  constexpr int kCallers = 4;
  std::vector<std::string> caught(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      try {
        pool.parallel_for(200, [&](std::int64_t i, int) {
          if (i == 100) throw std::runtime_error(std::to_string(caller));
        });
      } catch (const std::runtime_error& error) {
        caught[static_cast<std::size_t>(caller)] = error.what();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int caller = 0; caller < kCallers; ++caller) {
    EXPECT_EQ(caught[static_cast<std::size_t>(caller)], std::to_string(caller));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Values(1, 2, 3, 8),
                         testing::PrintToStringParamName());

// Bodies that wait for each other can only end if all slots run at once.
TEST(ThreadPool, GivesConcurrentBodiesDistinctSlots) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  ASSERT_EQ(pool.slots(), kThreads);
  for (int round = 0; round < 50; ++round) {
    std::latch all_run(kThreads);
    std::vector<int> slot_of(kThreads, -1);
    pool.parallel_for(kThreads, [&](std::int64_t i, int slot) {
      slot_of[static_cast<std::size_t>(i)] = slot;
      all_run.arrive_and_wait();
    });
    std::sort(slot_of.begin(), slot_of.end());
    std::vector<int> every_slot(kThreads);
    std::iota(every_slot.begin(), every_slot.end(), 0);
    ASSERT_EQ(slot_of, every_slot) << "round " << round;
  }
}

TEST(ThreadPool, CarriesAWorkersExceptionToTheCaller) {
  ThreadPool pool(2);
  std::latch both_run(2);
  EXPECT_THROW(pool.parallel_for(2,
                                 [&](std::int64_t, int slot) {
                                   both_run.arrive_and_wait();
                                   if (slot != 0) throw std::runtime_error("in a worker");
                                 }),
               std::runtime_error);
}

TEST(ThreadPool, EndsTheHandingOutAtAnException) {
  ThreadPool pool(1);
  int runs = 0;
  EXPECT_THROW(pool.parallel_for(100,
                                 [&](std::int64_t i, int) {
                                   ++runs;
                                   if (i == 3) throw std::runtime_error("index 3");
                                 }),
               std::runtime_error);
  EXPECT_EQ(runs, 4);
}

TEST(ThreadPool, OfOneRunsInOrderOnTheCaller) {
  ThreadPool pool(1);
  EXPECT_EQ(pool.slots(), 1);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::int64_t> order;
  pool.parallel_for(10, [&](std::int64_t i, int slot) {
    EXPECT_EQ(slot, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int round = 0; round < 50; ++round) ThreadPool pool(4);
}

TEST(UsableCpus, IsAtLeastOneAndAtMostTheMachines) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(UsableCpus, FollowsTheAffinityMask) {
  std::thread([] {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &set)) ++cpu;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);  // of this thread alone
    EXPECT_EQ(usable_cpus(), 1);
  }).join();
}

}  // namespace
}  // namespace ebb
