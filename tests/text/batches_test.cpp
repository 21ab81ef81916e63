#include "text/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "counting_source.h"
#include "ebb/error.h"
#include "temporary_folder.h"
#include "text/byte_tokenizer.h"
#include "text/data/text_files.h"

namespace ebb::text {
namespace {

TEST(Batches, ASampleIsARunOfTheStreamAndTargetsAreOneFurther) {
  const CountingSource source(101);
  const Batches batches(source, {.sequence = 5, .rows = 4}, 1);
  EXPECT_EQ(batches.samples_per_epoch(), 20);
  const Batch batch = batches.make(0);
  ASSERT_EQ(batch.tokens.size(), 20u);
  ASSERT_EQ(batch.targets.size(), 20u);
  EXPECT_EQ(batch.position_after, 4);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(batch.tokens[i] % 5, static_cast<int>(i % 5)) << i;
    EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1) << i;
  }
}

TEST(Batches, AnEpochVisitsEverySampleOnce) {
  const CountingSource source(1 + 7 * 3 + 2);  // an incomplete sample at the end
  const Batches batches(source, {.sequence = 3, .rows = 1}, 5);
  ASSERT_EQ(batches.samples_per_epoch(), 7);
  std::vector<std::vector<std::int32_t>> epochs(3);
  for (std::int64_t position = 0; position < 21; ++position) {
    epochs[position / 7].push_back(batches.make(position).tokens[0] / 3);
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set(epoch.begin(), epoch.end()), (std::set{0, 1, 2, 3, 4, 5, 6}));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Batches, RowsWrapOverTheEndOfAnEpoch) {
  const CountingSource source(1 + 5 * 2);
  const Batches single(source, {.sequence = 2, .rows = 1}, 9);
  const Batches wide(source, {.sequence = 2, .rows = 12}, 9);  // three epochs in a batch
  const Batch batch = wide.make(3);
  EXPECT_EQ(batch.position_after, 15);
  for (std::int64_t row = 0; row < 12; ++row) {
    const Batch expected = single.make(3 + row);
    EXPECT_TRUE(std::ranges::equal(expected.tokens, std::span(batch.tokens).subspan(row * 2, 2)));
    EXPECT_TRUE(std::ranges::equal(expected.targets, std::span(batch.targets).subspan(row * 2, 2)));
  }
}

// Promise 3: a resumed run sees what an unstopped one would have seen.
TEST(Batches, ResumesWhereItStopped) {
  const CountingSource source(1000);
  const Batches run(source, {.sequence = 8, .rows = 6}, 3);
  std::vector<Batch> all{run.make(0)};
  while (all.size() < 60) all.push_back(run.make(all.back().position_after));
  for (const std::size_t stop : {1u, 7u, 20u, 59u}) {
    const Batches resumed(source, {.sequence = 8, .rows = 6}, 3);
    std::int64_t position = all[stop - 1].position_after;
    for (std::size_t step = stop; step < all.size(); ++step) {
      const Batch batch = resumed.make(position);
      ASSERT_EQ(batch.tokens, all[step].tokens) << "step " << step << ", stopped at " << stop;
      ASSERT_EQ(batch.targets, all[step].targets) << "step " << step << ", stopped at " << stop;
      position = batch.position_after;
    }
  }
}

TEST(Batches, AnotherSeedIsAnotherOrder) {
  const CountingSource source(1000);
  const BatchShape shape{.sequence = 8, .rows = 20};
  EXPECT_NE(Batches(source, shape, 1).make(0).tokens, Batches(source, shape, 2).make(0).tokens);
}

TEST(Batches, DocumentsRunOnPartedByEndOfText) {
  const TemporaryFolder folder;
  folder.write("1", "ab");
  folder.write("2", "");
  folder.write("3", "c");
  const TextFiles files({folder.path()}, ByteTokenizer());
  const Batches batches(files, {.sequence = 4, .rows = 1}, 0);
  const Batch batch = batches.make(0);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{'a', 'b', 256, 'c'}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{'b', 256, 'c', 256}));
}

// A file of n bytes is n + 1 tokens, and a sample of sequence s needs s + 1.
TEST(Batches, CountsSamplesAtTheEdges) {
  const TemporaryFolder folder;
  const auto samples = [&](std::size_t bytes) {
    const TextFiles files({folder.write("text", std::string(bytes, 'x'))}, ByteTokenizer());
    const Batches batches(files, {.sequence = 16, .rows = 2}, 0);
    (void)batches.make(0);
    return batches.samples_per_epoch();
  };
  EXPECT_THROW(samples(15), ConfigError);
  EXPECT_EQ(samples(16), 1);
  EXPECT_EQ(samples(17), 1);
  EXPECT_EQ(samples(18), 1);
  EXPECT_EQ(samples(31), 1);
  EXPECT_EQ(samples(32), 2);
  EXPECT_EQ(samples(33), 2);
}

TEST(Batches, BatchBytesAreWhatABatchHolds) {
  const CountingSource source(1000);
  const Batches batches(source, {.sequence = 7, .rows = 3}, 0);
  const Batch batch = batches.make(0);
  EXPECT_EQ(batches.batch_bytes(),
            static_cast<Bytes>((batch.tokens.capacity() + batch.targets.capacity()) * 4));
}

TEST(BatchesErrors, ASequenceLongerThanTheData) {
  const CountingSource source(100);
  EXPECT_NO_THROW(Batches(source, {.sequence = 99, .rows = 1}, 0));
  for (const std::int64_t sequence : {std::int64_t{100}, std::int64_t{4096}, INT64_MAX}) {
    const std::string message =
        error_of<ConfigError>([&] { Batches(source, {.sequence = sequence, .rows = 1}, 0); });
    expect_says(message, "the data has 100 tokens");
    expect_says(message, std::to_string(sequence));
    expect_says(message, "give more data or a sequence of at most 99");
  }
  const CountingSource single(1);
  expect_says(error_of<ConfigError>([&] { Batches(single, {.sequence = 1, .rows = 1}, 0); }),
              "the data has 1 tokens");
}

TEST(BatchesErrors, AnEmptyOrHugeShape) {
  const CountingSource source(100);
  const struct {
    BatchShape shape;
    std::string_view remedy;
  } cases[] = {{{.sequence = 0, .rows = 1}, "give a batch of at least 1 row"},
               {{.sequence = -3, .rows = 1}, "give a batch of at least 1 row"},
               {{.sequence = 4, .rows = 0}, "give a batch of at least 1 row"},
               {{.sequence = 4, .rows = INT64_MAX}, "give fewer rows"}};
  for (const auto& [shape, remedy] : cases) {
    const std::string message = error_of<ConfigError>([&] { Batches(source, shape, 0); });
    expect_says(message, std::to_string(shape.rows) + " rows of " + std::to_string(shape.sequence) +
                             " tokens");
    expect_says(message, remedy);
  }
}

TEST(BatchesErrors, APositionOutOfRange) {
  const CountingSource source(100);
  const Batches batches(source, {.sequence = 4, .rows = 2}, 0);
  EXPECT_THROW((void)batches.make(-1), std::out_of_range);
  EXPECT_THROW((void)batches.make(INT64_MAX), std::out_of_range);
}

}  // namespace
}  // namespace ebb::text
