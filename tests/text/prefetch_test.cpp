#include "text/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <set>

#include <fmt/format.h>

#include "base/json.h"
#include "base/rng.h"
#include "data_cases.h"
#include "ebb/error.h"
#include "text/data/validation.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

// Lines of up to 60 letters, each with its number, and a text file beside them.
class Prefetch : public testing::Test {
 protected:
  Prefetch() {
    const CounterRng rng(1, 4);
    std::string lines, prompts;
    for (std::uint64_t i = 0; i < 150; ++i) {
      const std::string word(rng.below(i, 60), 'x');
      lines += fmt::format("{{\"text\": \"{}-{}\"}}\n", i, word);
      prompts += fmt::format("{{\"prompt\": \"{}?\", \"completion\": \"{}\"}}\n", i, word);
    }
    texts = folder.write("texts.jsonl", lines);
    questions = folder.write("questions.jsonl", prompts);
    std::string text;
    for (std::uint64_t i = 0; i < 300; ++i) text += fmt::format("line {}\n", i);
    plain = folder.write("plain.txt", text);
  }

  DataSet data_for(Packing packing) const {
    const std::vector<fs::path> paths =
        packing == Packing::stream ? std::vector{texts, plain} : std::vector{texts, questions};
    return open_data(paths, bytes_encoding(), {.passage_bytes = 100});
  }

  static std::vector<Batch> take(const DataSet& data, const BatchRules& rules, DataPosition start,
                                 std::size_t count, int workers = 1, std::int64_t tokens = 500) {
    Prefetcher prefetcher(data, rules, start, {.items = 16, .tokens = tokens, .workers = workers});
    std::vector<Batch> batches;
    while (batches.size() < count) batches.push_back(prefetcher.next());
    EXPECT_GE(prefetcher.waited_seconds(), 0.0);
    return batches;
  }

  static void expect_same(const Batch& found, const Batch& expected, const std::string& what) {
    ASSERT_EQ(found.tokens, expected.tokens) << what;
    ASSERT_EQ(found.targets, expected.targets) << what;
    ASSERT_EQ(found.position_after, expected.position_after) << what;
  }

  TemporaryFolder folder;
  fs::path texts, questions, plain;
};

BatchRules rules_for(Packing packing, double held_out = 0) {
  return {.shape = {.sequence = 32, .rows = 3},
          .packing = packing,
          .seed = 11,
          .held_out_share = held_out};
}

TEST_F(Prefetch, GivesTheSameBatchesForAnyNumberOfWorkers) {
  for (const Packing packing : {Packing::stream, Packing::fit, Packing::none}) {
    const DataSet data = data_for(packing);
    const std::vector<Batch> expected = take(data, rules_for(packing), {}, 200);
    EXPECT_GT(expected.back().position_after.epoch, 0);
    for (const int workers : {2, 3, 4}) {
      for (const std::int64_t tokens : {1, 5000}) {
        const std::vector<Batch> found = take(data, rules_for(packing), {}, 200, workers, tokens);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NO_FATAL_FAILURE(
              expect_same(found[i], expected[i], fmt::format("{} workers, batch {}", workers, i)));
        }
      }
    }
  }
}

// Promise 3: a resumed run sees what an unstopped one would have seen.
TEST_F(Prefetch, GoesOnWhereItStopped) {
  for (const Packing packing : {Packing::stream, Packing::fit, Packing::none}) {
    for (const double held_out : {0.0, 0.3}) {
      const DataSet data = data_for(packing);
      const BatchRules rules = rules_for(packing, held_out);
      const std::vector<Batch> all = take(data, rules, {}, 150);
      EXPECT_GT(all.back().position_after.epoch, 0);
      for (std::size_t stop = 0; stop + 1 < all.size(); ++stop) {
        const DataPosition start =
            parse_position(to_json(all[stop].position_after), "the training state");
        const std::size_t rest = std::min<std::size_t>(all.size() - stop - 1, 4);
        const std::vector<Batch> resumed =
            take(data, rules, start, rest, 1 + static_cast<int>(stop % 3));
        for (std::size_t i = 0; i < rest; ++i) {
          ASSERT_NO_FATAL_FAILURE(
              expect_same(resumed[i], all[stop + 1 + i],
                          fmt::format("{}, stopped at {}, batch {}", name_of(packing), stop, i)));
        }
      }
    }
  }
}

TEST_F(Prefetch, VisitsEveryItemOnceAnEpoch) {
  const DataSet data = data_for(Packing::stream);
  for (const double share : {0.0, 0.25}) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < data.items(); ++i) kept += is_held_out(data, i, share) ? 0 : 1;
    std::vector<std::vector<std::int64_t>> epochs;
    Order order = shuffled_order(data, 5, share, {});
    for (std::int64_t i = 0; i < 3 * kept; ++i) {
      const Visit visit = *order();
      ASSERT_FALSE(is_held_out(data, visit.item, share));
      epochs.resize(static_cast<std::size_t>(visit.at.epoch) + 1);
      epochs.back().push_back(visit.item);
    }
    ASSERT_EQ(epochs.size(), 3u);
    for (const auto& epoch : epochs) {
      EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), static_cast<std::size_t>(kept));
      EXPECT_EQ(epoch.size(), static_cast<std::size_t>(kept));
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
  }
}

TEST_F(Prefetch, AnotherSeedIsAnotherOrder) {
  const DataSet data = data_for(Packing::stream);
  BatchRules rules = rules_for(Packing::stream);
  const std::vector<Batch> one = take(data, rules, {}, 1);
  rules.seed = 12;
  EXPECT_NE(take(data, rules, {}, 1)[0].tokens, one[0].tokens);
}

TEST_F(Prefetch, EndsWithBatchesNotTaken) {
  const DataSet data = data_for(Packing::stream);
  for (std::size_t taken = 0; taken < 20; ++taken) {
    (void)take(data, rules_for(Packing::stream), {}, taken, 3);
  }
}

// Conversations are rendered by a function of the test's own, which can wait and fail.
class SlowChat : public testing::Test {
 protected:
  SlowChat() {
    std::string lines;
    for (int i = 0; i < 100; ++i) {
      lines += fmt::format(
          "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{}\"}}, {{\"role\": "
          "\"assistant\", \"content\": \"ok\"}}]}}\n",
          i);
    }
    path = folder.write("chat.jsonl", lines);
  }

  // Calls `begin` with the line's number when reading it begins.
  DataSet data_with(std::function<void(int line)> begin) const {
    Encoding encoding = bytes_encoding();
    encoding.chat = [begin = std::move(begin)](const Json& messages, bool answer_next) {
      const std::string first = messages[0]["content"];
      if (answer_next) begin(std::stoi(first));
      return first + ":" + (answer_next ? "" : "ok");
    };
    return open_data({path}, encoding);
  }

  TemporaryFolder folder;
  fs::path path;
};

int line_of(const VisitedItem& visited) { return std::stoi(spell(visited.item.tokens)); }

TEST_F(SlowChat, KeepsTheOrderWhenTheFirstItemIsReadLast) {
  std::latch others(2);
  std::atomic<int> counted = 0;
  const DataSet data = data_with([&](int line) {
    if (line == 0) {
      others.wait();
    } else if (counted.fetch_add(1) < 2) {
      others.count_down();
    }
  });
  ReadAhead ahead(data, file_order(data), {.items = 4, .tokens = 1000, .workers = 3});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(line_of(*ahead.next()), i);
  EXPECT_FALSE(ahead.next());
  EXPECT_FALSE(ahead.next());
}

TEST_F(SlowChat, RethrowsAnErrorInItsTurn) {
  const DataSet data = data_with([](int line) {
    if (line == 3) throw IoError("the disk at line 3");
  });
  for (const int workers : {1, 3}) {
    ReadAhead ahead(data, file_order(data), {.items = 8, .tokens = 1000, .workers = workers});
    for (int i = 0; i < 3; ++i) ASSERT_EQ(line_of(*ahead.next()), i);
    for (int again = 0; again < 2; ++again) {
      expect_says(error_of<IoError>([&] { (void)ahead.next(); }), "the disk at line 3");
    }
  }
}

TEST_F(SlowChat, NeverReadsFurtherThanItMay) {
  std::atomic<int> begun = 0;
  const DataSet data = data_with([&](int) { ++begun; });
  {
    ReadAhead ahead(data, file_order(data), {.items = 3, .tokens = 1000, .workers = 3});
    for (int taken = 1; taken <= 90; ++taken) {
      (void)ahead.next();
      ASSERT_LE(begun.load(), taken + 3);
    }
  }
  // An item has at least four tokens: two that wait are enough.
  begun = 0;
  ReadAhead ahead(data, file_order(data), {.items = 50, .tokens = 5, .workers = 1});
  for (int taken = 1; taken <= 90; ++taken) {
    (void)ahead.next();
    ASSERT_LE(begun.load(), taken + 3);
  }
}

TEST_F(SlowChat, MemoryGrowsWithItsBounds) {
  const DataSet data = data_with([](int) {});
  const auto bytes = [&](AheadBounds bounds) { return ReadAhead::memory_bytes(data, bounds); };
  const Bytes base = bytes({.items = 10, .tokens = 1000, .workers = 1});
  EXPECT_EQ(bytes({.items = 10, .tokens = 2000, .workers = 1}), base + 4000);
  EXPECT_EQ(bytes({.items = 10, .tokens = 1000, .workers = 2}), base + reading_bytes(data));
  EXPECT_GT(bytes({.items = 20, .tokens = 1000, .workers = 1}), base);
}

TEST_F(SlowChat, NoSpaceOrNoWorkers) {
  const DataSet data = data_with([](int) {});
  expect_says(error_of<ConfigError>([&] {
                ReadAhead(data, file_order(data), {.items = 0, .tokens = 1, .workers = 1});
              }),
              "0 items ahead with 1 workers; give at least 1 of each");
  expect_says(error_of<ConfigError>([&] {
                ReadAhead(data, file_order(data), {.items = 2, .tokens = 1, .workers = 0});
              }),
              "2 items ahead with 0 workers; give at least 1 of each");
}

TEST_F(Prefetch, RefusesDataShorterThanARow) {
  const DataSet data = open_data({folder.write("short.txt", "ebb")});
  EXPECT_NO_THROW(check_length(data, {.sequence = 3, .rows = 1}, Packing::stream));
  for (const std::int64_t sequence : {std::int64_t{4}, INT64_MAX}) {
    const std::string message = error_of<ConfigError>(
        [&] { check_length(data, {.sequence = sequence, .rows = 1}, Packing::stream); });
    expect_says(message, "at most 4 tokens, too few for a sequence of " + std::to_string(sequence));
    expect_says(message, "give more data or a sequence of at most 3");
  }
}

TEST_F(Prefetch, RefusesAPositionOfOtherData) {
  const DataSet data = data_for(Packing::stream);
  expect_says(error_of<FormatError>([&] {
                shuffled_order(data, 1, 0, {.epoch = 0, .item = data.items() + 1, .token = 0});
              }),
              "give the data of the run");
  expect_says(error_of<FormatError>([&] {
                (void)take(data, rules_for(Packing::stream),
                           {.epoch = 0, .item = 0, .token = 100000}, 1);
              }),
              "give the data of the run");
}

TEST_F(Prefetch, ValidationIsTheSameEachTimeAndNeverTrainedOn) {
  for (const Packing packing : {Packing::stream, Packing::none}) {
    const DataSet data = data_for(packing);
    const BatchShape shape = rules_for(packing).shape;
    ValidationBatches some(data, shape, packing, 0.2, 1000);
    std::vector<Batch> all;
    while (std::optional<Batch> batch = some.next()) all.push_back(std::move(*batch));
    ASSERT_GT(all.size(), 3u);
    ASSERT_LT(all.size(), 100u);
    some.rewind();
    for (const Batch& batch : all) {
      const Batch again = *some.next();
      EXPECT_EQ(again.tokens, batch.tokens);
      EXPECT_EQ(again.targets, batch.targets);
      EXPECT_EQ(again.tokens.size(), static_cast<std::size_t>(shape.tokens()));
    }
    EXPECT_FALSE(some.next());
    ValidationBatches two(data, shape, packing, 0.2, 2);
    EXPECT_EQ(two.next()->tokens, all[0].tokens);
    EXPECT_EQ(two.next()->tokens, all[1].tokens);
    EXPECT_FALSE(two.next());

    // Held out items begin nowhere in what is trained on, whatever the seed.
    std::set<std::int64_t> trained;
    for (const std::uint64_t seed : {1u, 2u}) {
      Order order = shuffled_order(data, seed, 0.2, {});
      for (Visit visit = *order(); visit.at.epoch == 0; visit = *order())
        trained.insert(visit.item);
    }
    Order validated = file_order(data, 0.2);
    std::int64_t count = 0;
    while (const std::optional<Visit> visit = validated()) {
      EXPECT_FALSE(trained.contains(visit->item));
      ++count;
    }
    EXPECT_EQ(count + static_cast<std::int64_t>(trained.size()), data.items());
  }
}

TEST_F(Prefetch, AllOfTheDataToValidateOn) {
  const DataSet data =
      open_data({folder.write("v.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"d\"}\n")});
  ValidationBatches all(data, {.sequence = 4, .rows = 2}, Packing::stream, std::nullopt, 16);
  const Batch batch = *all.next();
  EXPECT_EQ(spell(batch.tokens), "abc|d|||");
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{'b', 'c', 256, 'd', 256, -1, -1, -1}));
  EXPECT_EQ(batch.loss_tokens, 5);
  EXPECT_FALSE(all.next());
}

TEST_F(Prefetch, SharesThatLeaveNothing) {
  const DataSet one = open_data({folder.write("one.jsonl", "{\"text\": \"abc\"}\n")});
  expect_says(error_of<ConfigError>([&] {
                ValidationBatches(one, {.sequence = 4, .rows = 1}, Packing::stream, 1e-9, 1);
              }),
              "none to validate on; hold out more");
  expect_says(error_of<ConfigError>([&] { shuffled_order(one, 1, 0.9999999999, {}); }),
              "none to train on; hold out less");
}

}  // namespace
}  // namespace ebb::text
