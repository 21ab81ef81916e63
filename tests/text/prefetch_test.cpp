#include "text/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "counting_source.h"
#include "ebb/error.h"
#include "temporary_folder.h"

namespace ebb::text {
namespace {

void expect_same(const Batch& found, const Batch& expected, int step) {
  ASSERT_EQ(found.tokens, expected.tokens) << "step " << step;
  ASSERT_EQ(found.targets, expected.targets) << "step " << step;
  ASSERT_EQ(found.position_after, expected.position_after) << "step " << step;
}

class PrefetcherWorkers : public testing::TestWithParam<int> {};

TEST_P(PrefetcherWorkers, GiveTheBatchesInOrder) {
  const CountingSource source(3000);
  const Batches batches(source, {.sequence = 16, .rows = 3}, 11);
  for (const int ahead : {1, 2, 5}) {
    Prefetcher prefetcher(batches, 30, ahead, GetParam());
    std::int64_t position = 30;
    for (int step = 0; step < 300; ++step) {
      const Batch batch = prefetcher.next();
      ASSERT_NO_FATAL_FAILURE(expect_same(batch, batches.make(position), step));
      position = batch.position_after;
    }
    EXPECT_GE(prefetcher.waited_seconds(), 0.0);
  }
}

TEST_P(PrefetcherWorkers, EndWithBatchesNotTaken) {
  const CountingSource source(3000);
  const Batches batches(source, {.sequence = 16, .rows = 3}, 11);
  for (int taken = 0; taken < 20; ++taken) {
    Prefetcher prefetcher(batches, 0, 4, GetParam());
    for (int i = 0; i < taken; ++i) (void)prefetcher.next();
  }
}

INSTANTIATE_TEST_SUITE_P(Prefetcher, PrefetcherWorkers, testing::Values(1, 3));

// The sample at `slow` is read only after two others were. Reads of one token are the last targets.
class SlowSample : public CountingSource {
 public:
  SlowSample(std::int64_t size, std::int64_t slow) : CountingSource(size), slow_(slow) {}
  void read(std::int64_t first, std::span<std::int32_t> out) const override {
    if (out.size() > 1 && first == slow_) {
      others_.wait();
    } else if (out.size() > 1 && counted_.fetch_add(1) < 2) {
      others_.count_down();
    }
    CountingSource::read(first, out);
  }

 private:
  std::int64_t slow_;
  mutable std::latch others_{2};
  mutable std::atomic<int> counted_ = 0;
};

TEST(Prefetcher, KeepsTheOrderWhenTheFirstBatchIsReadLast) {
  const CountingSource plain(1000);
  const Batches expected(plain, {.sequence = 4, .rows = 1}, 2);
  const SlowSample source(1000, expected.make(0).tokens[0]);
  const Batches batches(source, {.sequence = 4, .rows = 1}, 2);
  Prefetcher prefetcher(batches, 0, 4, 3);
  for (int step = 0; step < 10; ++step) {
    ASSERT_NO_FATAL_FAILURE(expect_same(prefetcher.next(), expected.make(step), step));
  }
}

// Counts the samples read, and fails at the one that begins at `bad_`.
class WatchedSource : public CountingSource {
 public:
  using CountingSource::CountingSource;
  void read(std::int64_t first, std::span<std::int32_t> out) const override {
    if (out.size() > 1 && first == bad_)
      throw IoError("the disk at token " + std::to_string(first));
    CountingSource::read(first, out);
    if (out.size() > 1) reads_.fetch_add(1);
  }
  std::int64_t bad_ = -1;
  mutable std::atomic<int> reads_ = 0;
};

TEST(Prefetcher, RethrowsAnErrorInItsTurn) {
  WatchedSource source(1000);
  const Batches batches(source, {.sequence = 4, .rows = 1}, 2);
  const std::vector<Batch> good = {batches.make(0), batches.make(1), batches.make(2)};
  source.bad_ = batches.make(3).tokens[0];
  for (const int workers : {1, 3}) {
    Prefetcher prefetcher(batches, 0, 8, workers);
    for (int step = 0; step < 3; ++step) {
      ASSERT_NO_FATAL_FAILURE(expect_same(prefetcher.next(), good[step], step));
    }
    for (int again = 0; again < 2; ++again) {
      expect_says(error_of<IoError>([&] { (void)prefetcher.next(); }),
                  "the disk at token " + std::to_string(source.bad_));
    }
  }
}

TEST(Prefetcher, NeverMakesMoreThanItMayHold) {
  WatchedSource source(1000);
  const Batches batches(source, {.sequence = 4, .rows = 1}, 2);
  {
    Prefetcher prefetcher(batches, 0, 3, 3);
    EXPECT_EQ(prefetcher.memory_bytes(), 3 * batches.batch_bytes());
    EXPECT_EQ(prefetcher.memory_bytes(), 3 * 4 * 8);
    for (int taken = 1; taken <= 100; ++taken) {
      (void)prefetcher.next();
      ASSERT_LE(source.reads_.load(), taken + 3);
    }
  }
  EXPECT_LE(source.reads_.load(), 103);
}

TEST(PrefetcherErrors, NoSpaceOrNoWorkers) {
  const CountingSource source(1000);
  const Batches batches(source, {.sequence = 4, .rows = 1}, 2);
  expect_says(error_of<ConfigError>([&] { Prefetcher(batches, 0, 0, 1); }),
              "0 batches ahead with 1 workers; give at least 1 of each");
  expect_says(error_of<ConfigError>([&] { Prefetcher(batches, 0, 2, 0); }),
              "2 batches ahead with 0 workers; give at least 1 of each");
}

}  // namespace
}  // namespace ebb::text
