#include "text/data/packing.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/rng.h"
#include "data_cases.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

// Parts of an item that begin anew are laid into rows as items are, wherever a run stops.
TEST(Parts, AreLaidIntoRowsOneByOne) {
  const auto source = [](std::int64_t first) {
    return [next = first]() mutable -> std::optional<VisitedItem> {
      if (next == 3) return std::nullopt;
      VisitedItem item{.at = {.epoch = 0, .item = next, .token = 0}, .item = {}};
      // 3, 4 and 2 tokens, of which the first of each carries no loss.
      item.item.tokens = {~10, 11, 12, ~20, 21, 22, 23, ~30, 31};
      for (auto& t : item.item.tokens)
        t = t < 0 ? ~(~t + 100 * static_cast<std::int32_t>(next))
                  : t + 100 * static_cast<std::int32_t>(next);
      item.item.part_begins = {3, 7};
      item.item.next = Item::kUnknown;
      ++next;
      return item;
    };
  };
  for (const Packing packing : {Packing::none, Packing::fit, Packing::stream}) {
    const auto make = [&](DataPosition start) {
      return BatchMaker({.sequence = 4, .rows = 1}, packing, 0, start, source(start.item));
    };
    std::vector<Batch> all;
    BatchMaker maker = make({});
    while (auto batch = maker.next()) all.push_back(std::move(*batch));
    if (packing == Packing::none) {
      ASSERT_EQ(all.size(), 9u);
      EXPECT_EQ(all[0].tokens, (std::vector<std::int32_t>{10, 11, 12, 0}));
      EXPECT_EQ(all[0].targets, (std::vector<std::int32_t>{11, 12, -1, -1}));
      EXPECT_EQ(all[1].targets, (std::vector<std::int32_t>{21, 22, 23, -1}));
      EXPECT_EQ(all[5].targets, (std::vector<std::int32_t>{131, -1, -1, -1}));
    }
    // No token is predicted from the part before its own.
    for (const Batch& batch : all) {
      for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        if (batch.targets[i] >= 0) {
          EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
        }
      }
    }
    for (std::size_t stop = 0; stop + 1 < all.size(); ++stop) {
      BatchMaker rest = make(all[stop].position_after);
      for (std::size_t i = stop + 1; i < all.size(); ++i) {
        const auto batch = rest.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->tokens, all[i].tokens) << name_of(packing) << ", " << stop << ", " << i;
        EXPECT_EQ(batch->targets, all[i].targets) << name_of(packing) << ", " << stop;
      }
    }
  }
}

constexpr std::int32_t kPadding = 99;

struct Pair {
  std::int32_t token;
  std::int32_t target;
  bool operator==(const Pair&) const = default;
};

BatchMaker maker_of(const std::vector<Item>& items, BatchShape shape, Packing packing,
                    DataPosition start = {}) {
  return BatchMaker(shape, packing, kPadding, start,
                    [&items, at = start.item]() mutable -> std::optional<VisitedItem> {
                      if (at == static_cast<std::int64_t>(items.size())) return std::nullopt;
                      const std::int64_t item = at++;
                      return VisitedItem{{.epoch = 0, .item = item, .token = 0},
                                         items[static_cast<std::size_t>(item)]};
                    });
}

std::vector<Batch> all_batches(BatchMaker maker) {
  std::vector<Batch> all;
  while (std::optional<Batch> batch = maker.next()) all.push_back(std::move(*batch));
  return all;
}

// Items of up to 30 tokens, numbered through, some without loss, all kinds of ends.
std::vector<Item> random_items(std::uint64_t seed, std::int64_t count) {
  const CounterRng rng(seed, 3);
  std::vector<Item> items;
  std::int32_t id = 1000;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(i) * 100;
    Item item;
    const std::uint64_t size = rng.below(at, 30) + (rng.below(at + 1, 10) > 0 ? 1 : 0);
    for (std::uint64_t t = 0; t < size; ++t) {
      item.tokens.push_back(rng.below(at + 10 + t, 3) == 0 ? ~id : id);
      ++id;
    }
    const std::uint64_t end = rng.below(at + 2, 3);
    item.next = end == 0 ? Item::kNextItem : end == 1 ? Item::kUnknown : 500 + static_cast<int>(i);
    items.push_back(std::move(item));
  }
  return items;
}

void expect_counted(const std::vector<Batch>& batches, BatchShape shape) {
  for (const Batch& batch : batches) {
    ASSERT_EQ(batch.tokens.size(), static_cast<std::size_t>(shape.tokens()));
    ASSERT_EQ(batch.targets.size(), static_cast<std::size_t>(shape.tokens()));
    std::int64_t counted = 0;
    for (const std::int32_t target : batch.targets) {
      ASSERT_GE(target, -1);
      counted += target >= 0 ? 1 : 0;
    }
    ASSERT_EQ(batch.loss_tokens, counted);
  }
}

TEST(Packing, StreamLosesNoTokenAndKnowsEveryTarget) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<Item> items = random_items(seed, 50);
    // The definition: tokens one after another, each with what follows it.
    std::vector<Pair> expected;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::vector<std::int32_t>& tokens = items[i].tokens;
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        std::int32_t target = items[i].next;
        if (t + 1 < tokens.size()) {
          target = target_of(tokens[t + 1]);
        } else if (target == Item::kNextItem) {
          std::size_t next = i + 1;
          while (next < items.size() && items[next].tokens.empty()) ++next;
          target = next < items.size() ? target_of(items[next].tokens.front()) : -1;
        }
        expected.push_back({id_of(tokens[t]), target});
      }
    }
    for (const BatchShape shape : {BatchShape{7, 3}, BatchShape{1, 1}, BatchShape{64, 2}}) {
      const std::vector<Batch> batches = all_batches(maker_of(items, shape, Packing::stream));
      ASSERT_NO_FATAL_FAILURE(expect_counted(batches, shape));
      std::vector<Pair> found;
      for (const Batch& batch : batches) {
        for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
          found.push_back({batch.tokens[i], batch.targets[i]});
        }
      }
      ASSERT_GE(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const Pair want = i < expected.size() ? expected[i] : Pair{kPadding, -1};
        ASSERT_EQ(found[i], want) << "seed " << seed << ", sequence " << shape.sequence
                                  << ", token " << i;
      }
    }
  }
}

// Row by row what the definition says, written down the slow way.
std::vector<std::vector<Pair>> place_examples(const std::vector<Item>& items, std::int64_t sequence,
                                              Packing packing, std::int64_t& cut) {
  const auto room = static_cast<std::size_t>(sequence);
  std::vector<std::vector<Pair>> rows;
  for (const Item& item : items) {
    if (item.tokens.empty()) continue;
    std::vector<Pair> pairs;
    for (std::size_t t = 0; t < item.tokens.size(); ++t) {
      pairs.push_back(
          {id_of(item.tokens[t]), t + 1 < item.tokens.size() ? target_of(item.tokens[t + 1]) : -1});
    }
    const std::size_t needed = pairs.size() - 1;
    const bool fits =
        !rows.empty() && packing == Packing::fit && needed + rows.back().size() <= room;
    if (!fits) rows.emplace_back();
    if (needed > room) cut += static_cast<std::int64_t>(needed - room);
    for (const Pair& pair : pairs) {
      if (rows.back().size() < room) rows.back().push_back(pair);
    }
  }
  for (auto& row : rows) row.resize(room, {kPadding, -1});
  return rows;
}

TEST(Packing, ExamplesStayWhole) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<Item> items = random_items(seed, 60);
    for (const Packing packing : {Packing::fit, Packing::none}) {
      for (const BatchShape shape : {BatchShape{16, 3}, BatchShape{29, 1}, BatchShape{40, 4}}) {
        std::int64_t expected_cut = 0;
        auto rows = place_examples(items, shape.sequence, packing, expected_cut);
        const std::vector<Batch> batches = all_batches(maker_of(items, shape, packing));
        ASSERT_NO_FATAL_FAILURE(expect_counted(batches, shape));
        ASSERT_EQ(static_cast<std::int64_t>(batches.size()),
                  (static_cast<std::int64_t>(rows.size()) + shape.rows - 1) / shape.rows);
        rows.resize(batches.size() * static_cast<std::size_t>(shape.rows),
                    std::vector<Pair>(static_cast<std::size_t>(shape.sequence), {kPadding, -1}));
        std::int64_t cut = 0;
        std::int64_t cut_examples = 0;
        for (std::size_t b = 0; b < batches.size(); ++b) {
          for (std::size_t i = 0; i < batches[b].tokens.size(); ++i) {
            const std::size_t row = b * static_cast<std::size_t>(shape.rows) +
                                    i / static_cast<std::size_t>(shape.sequence);
            const Pair want = rows[row][i % static_cast<std::size_t>(shape.sequence)];
            ASSERT_EQ((Pair{batches[b].tokens[i], batches[b].targets[i]}), want)
                << name_of(packing) << ", seed " << seed << ", row " << row;
          }
          cut += batches[b].left_out.cut_tokens;
          cut_examples += batches[b].left_out.cut_examples;
        }
        EXPECT_EQ(cut, expected_cut);
        EXPECT_EQ(cut_examples > 0, expected_cut > 0);
      }
    }
  }
}

TEST(Packing, GoesOnFromEveryPosition) {
  for (const Packing packing : {Packing::stream, Packing::fit, Packing::none}) {
    const std::vector<Item> items = random_items(5, 60);
    const BatchShape shape{13, 2};
    const std::vector<Batch> whole = all_batches(maker_of(items, shape, packing));
    ASSERT_GT(whole.size(), 10u);
    for (std::size_t stop = 0; stop < whole.size(); ++stop) {
      const std::vector<Batch> rest =
          all_batches(maker_of(items, shape, packing, whole[stop].position_after));
      ASSERT_EQ(rest.size(), whole.size() - stop - 1) << name_of(packing) << " stopped at " << stop;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        ASSERT_EQ(rest[i].tokens, whole[stop + 1 + i].tokens);
        ASSERT_EQ(rest[i].targets, whole[stop + 1 + i].targets);
        ASSERT_EQ(rest[i].position_after, whole[stop + 1 + i].position_after);
      }
    }
  }
}

TEST(Packing, ChosenByWhatTheDataIs) {
  const TemporaryFolder folder;
  const auto text = folder.write("a.txt", "text");
  const auto texts = folder.write("texts.jsonl", "{\"text\": \"a\"}\n");
  const auto prompts = folder.write("p.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  const auto chosen = [](const std::vector<std::filesystem::path>& paths,
                         std::optional<Packing> given = std::nullopt) {
    return choose_packing(open_data(paths), given);
  };
  EXPECT_EQ(chosen({text, texts}), Packing::stream);
  EXPECT_EQ(chosen({texts, prompts}), Packing::none);
  EXPECT_EQ(chosen({texts}, Packing::fit), Packing::fit);
  EXPECT_EQ(chosen({text, prompts}, Packing::stream), Packing::stream);
  std::string message = error_of<ConfigError>([&] { chosen({text}, Packing::fit); });
  expect_says(message, "'" + text.string() + "' is plain text");
  expect_says(message, "use --packing stream");
  message = error_of<ConfigError>([&] { chosen({prompts, text}); });
  expect_says(message, "--packing none, the default for prompts");
}

TEST(PackingErrors, AnEmptyOrHugeShape) {
  const struct {
    BatchShape shape;
    std::string_view remedy;
  } cases[] = {{{.sequence = 0, .rows = 1}, "give a batch of at least 1 row"},
               {{.sequence = -3, .rows = 1}, "give a batch of at least 1 row"},
               {{.sequence = 4, .rows = 0}, "give a batch of at least 1 row"},
               {{.sequence = 4, .rows = INT64_MAX}, "give fewer rows"}};
  for (const auto& [shape, remedy] : cases) {
    const std::string message =
        error_of<ConfigError>([&] { maker_of({}, shape, Packing::stream); });
    expect_says(message, std::to_string(shape.rows) + " rows of " + std::to_string(shape.sequence) +
                             " tokens");
    expect_says(message, remedy);
  }
}

TEST(Position, SurvivesAsJson) {
  const DataPosition position{.epoch = 3, .item = std::int64_t{1} << 40, .token = 17};
  EXPECT_EQ(parse_position(to_json(position), "here"), position);
  for (const char* bad :
       {"14", "null", "{}", R"({"epoch": 0, "item": 1})", R"({"epoch": 0, "item": -1, "token": 0})",
        R"({"epoch": 0, "item": 1.5, "token": 0})", R"({"epoch": "0", "item": 1, "token": 0})",
        R"({"epoch": 0, "item": 18446744073709551615, "token": 0})"}) {
    expect_says(error_of<FormatError>([&] { (void)parse_position(Json::parse(bad), "here"); }),
                "here: the data position");
  }
}

}  // namespace
}  // namespace ebb::text
