// Data of which some cannot be used, where that is skipped; and batches without anything to learn.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "data_cases.h"
#include "ebb/error.h"
#include "text/data/line_index.h"
#include "text/data/prefetch.h"
#include "text/data/validation.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

// The first two are blank, which is not bad: they are passed over without a word.
constexpr std::size_t kBlank = 2;
const std::vector<std::string> kBad = {"",
                                       "  ",
                                       "{\"text\": ",
                                       "[1, 2]",
                                       "{\"text\": 3}",
                                       "{\"words\": \"a\"}",
                                       "{\"text\": \"caf\xe9\"}"};

DataSet skipping(const fs::path& path) {
  return open_data({path}, bytes_encoding(), {.skip_bad = true});
}

std::vector<Batch> validation_batches(const DataSet& data, Packing packing) {
  ValidationBatches batches(data, {.sequence = 8, .rows = 2}, packing, std::nullopt, 1000);
  std::vector<Batch> all;
  while (std::optional<Batch> batch = batches.next()) all.push_back(std::move(*batch));
  return all;
}

// Lines 1 to 90, all good and with bad ones among them: at the beginning, in a row, at the end.
class BadLinesTest : public testing::Test {
 protected:
  BadLinesTest() {
    std::string good, mixed;
    for (int i = 0; i < 90; ++i) {
      const std::string line = fmt::format("{{\"text\": \"{}{}\"}}\n", i,
                                           std::string(static_cast<std::size_t>(i % 11), 'x'));
      for (std::size_t b = 0; b < kBad.size() && i % 9 == 0;
           b += static_cast<std::size_t>(1 + i % 2)) {
        mixed += kBad[b] + "\n";
        ++(b < kBlank ? blank : bad);
      }
      good += line;
      mixed += line;
    }
    for (const std::string& line : kBad) mixed += line + "\n";
    blank += static_cast<std::int64_t>(kBlank);
    bad += static_cast<std::int64_t>(kBad.size() - kBlank);
    good_path = folder.write("good.jsonl", good);
    mixed_path = folder.write("mixed.jsonl", mixed);
  }

  TemporaryFolder folder;
  fs::path good_path, mixed_path;
  std::int64_t blank = 0;
  std::int64_t bad = 0;
};

TEST_F(BadLinesTest, AreAsIfTheyWereNotThere) {
  const DataSet good = open_data({good_path});
  const DataSet mixed = skipping(mixed_path);
  EXPECT_EQ(mixed.items(), 90 + blank + bad);
  EXPECT_EQ(mixed.largest_item(), good.largest_item());
  for (const Packing packing : {Packing::stream, Packing::fit, Packing::none}) {
    const std::vector<Batch> expected = validation_batches(good, packing);
    const std::vector<Batch> found = validation_batches(mixed, packing);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, expected[i].tokens) << i;
      EXPECT_EQ(found[i].targets, expected[i].targets) << i;
    }
  }
  ValidationBatches all(mixed, {.sequence = 8, .rows = 2}, Packing::stream, std::nullopt, 1000);
  for (int pass = 0; pass < 2; ++pass) {
    while (all.next()) {
    }
    EXPECT_EQ(all.left_out().bad_items, bad);
    expect_says(all.left_out().first_problem, "mixed.jsonl', line 3: this is not JSON");
    all.rewind();
  }
}

// Where a run stops and goes on, every bad line is counted once, by the batch that passes it.
TEST_F(BadLinesTest, AreCountedOnceWhereverARunStopsAndWhateverTheWorkers) {
  const DataSet data = skipping(mixed_path);
  for (const Packing packing : {Packing::stream, Packing::fit, Packing::none}) {
    const BatchRules rules{.shape = {.sequence = 16, .rows = 2}, .packing = packing, .seed = 3};
    const auto take = [&](DataPosition start, std::size_t count, int workers) {
      Prefetcher from(data, rules, start, {.items = 8, .tokens = 100, .workers = workers});
      std::vector<Batch> batches;
      while (batches.size() < count) batches.push_back(from.next());
      return batches;
    };
    const std::vector<Batch> whole = take({}, 120, 1);
    ASSERT_GT(whole.back().position_after.epoch, 1);
    std::int64_t in_two_epochs = 0;
    for (const Batch& batch : whole) {
      if (batch.position_after.epoch < 2) in_two_epochs += batch.left_out.bad_items;
    }
    EXPECT_GT(in_two_epochs, bad);
    EXPECT_LE(in_two_epochs, 2 * bad);
    for (std::size_t stop = 1; stop < 60; stop += 7) {
      const std::vector<Batch> rest =
          take(whole[stop - 1].position_after, whole.size() - stop, 1 + static_cast<int>(stop % 3));
      for (std::size_t i = 0; i < rest.size(); ++i) {
        ASSERT_EQ(rest[i].tokens, whole[stop + i].tokens);
        ASSERT_EQ(rest[i].targets, whole[stop + i].targets);
        ASSERT_EQ(rest[i].position_after, whole[stop + i].position_after);
        ASSERT_EQ(rest[i].left_out.bad_items, whole[stop + i].left_out.bad_items) << stop + i;
        ASSERT_EQ(rest[i].left_out.first_problem, whole[stop + i].left_out.first_problem);
      }
    }
  }
}

TEST_F(BadLinesTest, EndTheRunUnlessTheyAreSkipped) {
  EXPECT_THROW((void)open_data({mixed_path}), FormatError);
  const fs::path late = folder.write("late.jsonl", "{\"text\": \"a\"}\n[]\n");
  const DataSet data = open_data({late});
  EXPECT_THROW((void)data.read(1), FormatError);
  const Item item = skipping(late).read(1);
  EXPECT_TRUE(item.tokens.empty());
  expect_says(item.problem, "late.jsonl', line 2: expected a JSON object");
}

TEST_F(BadLinesTest, NothingGoodIsAnError) {
  const fs::path none = folder.write("none.jsonl", "[]\n{\n");
  const std::string message = error_of<ConfigError>([&] { skipping(none); });
  expect_says(message, "none of its lines can be used");
  expect_says(message, "none.jsonl', line 1: expected a JSON object");

  // The kind of the lines is known, and not one of them can be used.
  const fs::path all = folder.write("all.jsonl", "{\"text\": 1}\n{\"text\": 2}\n");
  const DataSet data = skipping(all);
  Prefetcher batches(data, {.shape = {.sequence = 4, .rows = 1}}, {},
                     {.items = 4, .tokens = 100, .workers = 2});
  const std::string bad = error_of<FormatError>([&] { (void)batches.next(); });
  expect_says(bad, "no item of the data can be used");
  expect_says(bad, "all.jsonl', line ");
}

TEST_F(BadLinesTest, ALineThatIsTooLongIsOneOfThem) {
  const fs::path path = folder.write("long.jsonl", "{\"text\": \"a\"}\n");
  fs::resize_file(path, static_cast<std::uintmax_t>(LineIndex::kLongestLine) + 100);
  std::ofstream(path, std::ios::app) << "\n{\"text\": \"b\"}\n";
  EXPECT_THROW((void)open_data({path}), FormatError);
  const DataSet data = skipping(path);
  ASSERT_EQ(data.items(), 3);
  EXPECT_EQ(data.largest_item(), 13);
  expect_says(data.read(1).problem, "line 2: the line is longer than 64.0 MiB");
  EXPECT_EQ(spell(data.read(2).tokens), "b|");
}

// Prompts of which the longer ones fill the row, so that their answers are cut off.
class NoTargetsTest : public testing::Test {
 protected:
  DataSet prompts(int count, int every) const {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      lines += fmt::format("{{\"prompt\": \"{}{}\", \"completion\": \"ok\"}}\n", i,
                           i % every == 0 ? "" : std::string(50, 'x'));
    }
    return open_data({folder.write("p.jsonl", lines)});
  }
  static Prefetcher from(const DataSet& data, DataPosition start) {
    return Prefetcher(data,
                      {.shape = {.sequence = 16, .rows = 1}, .packing = Packing::none, .seed = 5},
                      start, {.items = 16, .tokens = 500, .workers = 2});
  }
  TemporaryFolder folder;
};

TEST_F(NoTargetsTest, StepsWithoutAnyArePassedOverAndCounted) {
  const DataSet data = prompts(60, 6);
  for (const std::int64_t accumulate : {1, 3}) {
    // The definition: groups of batches, without those in which nothing counts.
    Prefetcher all = from(data, {});
    Prefetcher steps = from(data, {});
    for (int step = 0; step < 30; ++step) {
      std::int64_t counted = 0, empty = 0, cut = 0;
      std::vector<Batch> expected;
      for (;; ++empty) {
        expected.clear();
        for (std::int64_t i = 0; i < accumulate; ++i) {
          expected.push_back(all.next());
          counted += expected.back().loss_tokens;
          cut += expected.back().left_out.cut_examples;
        }
        if (counted > 0) break;
      }
      const std::vector<Batch> found = steps.next_step(accumulate);
      ASSERT_EQ(found.size(), expected.size());
      LeftOut left_out;
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].tokens, expected[i].tokens);
        left_out.add(found[i].left_out);
      }
      EXPECT_EQ(left_out.empty_steps, empty);
      EXPECT_EQ(left_out.cut_examples, cut);
      ASSERT_EQ(found.back().position_after, expected.back().position_after);
    }
  }
}

TEST_F(NoTargetsTest, AWholeEpochWithoutAnyIsAnError) {
  const DataSet data = prompts(7, 1000);
  // The one short prompt is long gone.
  const DataSet none = open_data({folder.write(
      "none.jsonl", "{\"prompt\": \"" + std::string(50, 'y') + "\", \"completion\": \"ok\"}\n")});
  EXPECT_EQ(from(data, {}).next_step(1).size(), 1u);
  Prefetcher batches = from(none, {});
  const std::string message = error_of<ConfigError>([&] { (void)batches.next_step(2); });
  expect_says(message, "none of the tokens of a whole epoch counts for the loss");
  expect_says(message, "--sequence 16");
}

}  // namespace
}  // namespace ebb::text
