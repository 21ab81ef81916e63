// The promise: on the cpu device a sequence's logits are, to the bit, those that it has alone,
// whatever other sequences join and leave beside it, wherever weights and caches live, and also
// where its beginning was copied from another's. And no run has to be looked at before the next one
// is queued.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/generation_placements.h"
#include "engine/generator.h"
#include "engine/small_runs.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "plan/random_work.h"
#include "scale.h"

namespace ebb::engine {
namespace {

using plan::Dice;
using plan::Tier;

constexpr std::int64_t kSlice = 4;
constexpr int kSequences = 3;

// Tokens that are given: a prompt, then one after the other.
struct GivenText {
  std::vector<std::int32_t> ids;
  std::int64_t prompt = 1;
};

class SequencesTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::int64_t kPositions = 18;

  void SetUp() override {
    if (test_device() != "cpu") GTEST_SKIP() << "promised on the cpu device";
  }

  files::ModelSource source() {
    return files::find_model(files_, golden_folder(GetParam()).string());
  }
  GeneratorSettings settings(const TestPlacement& placement, DType dtype, int sequences) {
    GeneratorSettings s{.config = source().config,
                        .dtype = dtype,
                        .sequences = sequences,
                        .positions = kPositions,
                        .prompt_tokens = 11,
                        .limits = {{Tier::device, kGiB}, {Tier::host, kGiB}}};
    s.fixed = placement.fixed;
    s.fixed.slice = kSlice;
    if (placement.disk) add_disk(s, {{folder_.path(), 256 * kMiB}});
    return s;
  }
  // Some begin alike, by a slice.
  std::vector<GivenText> texts() {
    Dice dice(7);
    const std::int64_t vocabulary = source().config.vocabulary;
    std::vector<GivenText> all;
    for (const std::int64_t prompt : {11, 1, 5, 7, 4, 2}) {
      GivenText text{.ids = {}, .prompt = prompt};
      for (std::int64_t i = 0; i < std::min(kPositions, prompt + 6); ++i) {
        text.ids.push_back(static_cast<std::int32_t>(dice.between(0, vocabulary - 1)));
      }
      if (prompt > kSlice && !all.empty()) {
        std::copy_n(all.front().ids.begin(), kSlice, text.ids.begin());
      }
      all.push_back(std::move(text));
    }
    return all;
  }
  static std::span<const std::int32_t> prompt_of(const GivenText& text) {
    return std::span(text.ids).first(static_cast<std::size_t>(text.prompt));
  }

  using Logits = std::vector<std::vector<float>>;  // behind the prompt and every token
  static std::vector<float> copied(std::span<const float> logits) {
    return {logits.begin(), logits.end()};
  }
  static Logits alone(Generator& generator, const GivenText& text) {
    generator.reset();
    Logits all = {copied(generator.advance(prompt_of(text)))};
    for (auto i = static_cast<std::size_t>(text.prompt); i < text.ids.size(); ++i) {
      all.push_back(copied(generator.advance({&text.ids[i], 1})));
    }
    return all;
  }

  io::PosixFileSystem files_;
  io::TempFolder folder_;
  Runtime runtime_{test_device(), 2};
};

// All texts go through the generator's sequences, in random order, and each row of logits is
// compared. Returns how many rows had neighbours, and how many texts a copied beginning.
struct Seen {
  int beside = 0, copied = 0;
};
Seen expect_same_beside_others(Generator& generator, const std::vector<GivenText>& texts,
                               const std::vector<std::vector<std::vector<float>>>& expected,
                               std::uint64_t seed, const std::string& where) {
  Dice dice(seed);
  Seen seen;
  struct Place {
    int text = -1, last = -1;  // -1: none
    std::size_t next = 0;      // of the text's tokens
  };
  std::vector<Place> places(kSequences);
  std::vector<int> waiting(texts.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i] = static_cast<int>(i);
  const auto compare = [&](std::span<const float> row, int text, std::size_t behind) {
    const auto& wanted =
        expected[static_cast<std::size_t>(text)]
                [behind - static_cast<std::size_t>(texts[static_cast<std::size_t>(text)].prompt)];
    const auto [found, is] = std::ranges::mismatch(row, wanted);
    ASSERT_EQ(found, row.end()) << where << ", seed " << seed << ", text " << text
                                << " behind token " << behind << ", logit " << found - row.begin()
                                << ": " << *found << " and alone " << *is;
  };
  const auto begin = [&](int s) {
    Place& place = places[static_cast<std::size_t>(s)];
    const auto which = dice.between(0, std::ssize(waiting) - 1);
    place.text = waiting[static_cast<std::size_t>(which)];
    waiting.erase(waiting.begin() + which);
    const GivenText& text = texts[static_cast<std::size_t>(place.text)];
    std::int64_t kept = 0;
    generator.reset(s);
    for (int other = 0; other < kSequences && kept == 0 && text.prompt > kSlice; ++other) {
      const int has = places[static_cast<std::size_t>(other)].last;
      if (other == s || has < 0 || texts[static_cast<std::size_t>(has)].prompt <= kSlice ||
          generator.length(other) < kSlice || !dice.chance(0.7)) {
        continue;
      }
      generator.copy(other, s, kept = kSlice);
      ++seen.copied;
    }
    place.last = place.text;
    place.next = static_cast<std::size_t>(text.prompt);
    const auto rest = std::span(text.ids).first(place.next).subspan(static_cast<std::size_t>(kept));
    compare(generator.advance(rest, s), place.text, place.next);
  };
  const auto under_way = [&](const Place& place) { return place.text >= 0; };
  while (!waiting.empty() || std::ranges::any_of(places, under_way)) {
    for (int s = 0; s < kSequences; ++s) {
      const bool free = places[static_cast<std::size_t>(s)].text < 0;
      if (free && !waiting.empty() && dice.chance(0.5)) begin(s);
    }
    std::vector<Generator::Token> tokens;
    for (int s = kSequences - 1; s >= 0; --s) {
      Place& place = places[static_cast<std::size_t>(s)];
      if (place.text < 0) continue;
      const GivenText& text = texts[static_cast<std::size_t>(place.text)];
      if (place.next == text.ids.size()) {
        place.text = -1;
      } else if (dice.chance(0.8)) {
        tokens.push_back({s, text.ids[place.next++]});
      }
    }
    if (tokens.empty()) continue;
    const auto rows = generator.advance_each(tokens);
    const std::size_t width = rows.size() / tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Place& place = places[static_cast<std::size_t>(tokens[i].sequence)];
      compare(rows.subspan(i * width, width), place.text, place.next);
      seen.beside += tokens.size() > 1 ? 1 : 0;
    }
  }
  return seen;
}

TEST_P(SequencesTest, NeighboursAndCopiedBeginningsChangeNoBit) {
  std::uint64_t seed = 0;
  Seen seen;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<GivenText> all = texts();
    std::vector<Logits> expected;
    {
      Generator one(runtime_, files_, source(), settings(test_placements()[0], dtype, 1));
      for (const GivenText& text : all) expected.push_back(alone(one, text));
    }
    for (const TestPlacement& placement : test_placements()) {
      const std::string where = fmt::format("{}, {}", name_of(dtype), placement.name);
      GeneratorSettings s = settings(placement, dtype, kSequences);
      for (const bool disturbed : {false, true}) {
        ++seed;
        if (disturbed && small_scale()) continue;
        if (disturbed) {
          s.disturbance = {.slow_lanes_seed = seed, .poison = true, .threads = seed % 4 == 0};
        }
        Generator generator(runtime_, files_, source(), s);
        const Seen now = expect_same_beside_others(generator, all, expected, seed, where);
        if (HasFatalFailure()) return;
        seen.beside += now.beside;
        seen.copied += now.copied;
        // With all sequences at once every byte is used that was planned, and no other.
        std::vector<Generator::Token> tokens;
        for (int i = 0; i < kSequences; ++i) {
          generator.reset(i);
          generator.advance(prompt_of(all[0]), i);
          tokens.push_back({i, 1});
        }
        generator.advance_each(tokens);
        for (const Tier tier : s.topology->all_tiers()) {
          EXPECT_EQ(generator.measured_peak(tier), generator.plan().peak(tier))
              << where << ", tier " << int{tier.index};
        }
      }
    }
  }
  EXPECT_GT(seen.beside, 200);
  EXPECT_GT(seen.copied, 5);
}

// The likeliest tokens, chosen on the lane while the next run is queued already, are those that a
// caller chooses who waits for each.
TEST_P(SequencesTest, QueuedRunsChooseWhatWaitingForEachDoes) {
  const auto likeliest = [](std::span<const float> logits) {
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  };
  const std::vector<GivenText> all = texts();
  for (const std::size_t p : {0u, 1u, 2u, 7u}) {
    const TestPlacement placement = test_placements()[p];
    std::vector<std::vector<std::int32_t>> expected(kSequences);
    {
      Generator one(runtime_, files_, source(), settings(placement, DType::bf16, 1));
      for (std::size_t t = 0; t < kSequences; ++t) {
        one.reset();
        std::int32_t next = likeliest(one.advance(prompt_of(all[t])));
        for (int i = 0; i < 6; ++i) {
          expected[t].push_back(next);
          next = likeliest(one.advance({&next, 1}));
        }
      }
    }
    GeneratorSettings s = settings(placement, DType::bf16, kSequences);
    s.disturbance = {.slow_lanes_seed = p + 1, .poison = true, .threads = p % 2 == 0};
    Generator generator(runtime_, files_, source(), s);
    std::vector<std::vector<std::int32_t>> found(kSequences);
    generator.set_chooser([&](int sequence, std::span<const float> logits) {
      return found[static_cast<std::size_t>(sequence)].emplace_back(likeliest(logits));
    });
    // They join one after the other, and leave with six tokens.
    std::vector<int> queued(kSequences, 0);
    for (int step = 0; step < 6 + kSequences; ++step) {
      if (step < kSequences) {
        const auto prompt = prompt_of(all[static_cast<std::size_t>(step)]);
        for (std::size_t at = 0; at < prompt.size(); at += kSlice) {
          const auto slice = prompt.subspan(at, std::min<std::size_t>(kSlice, prompt.size() - at));
          generator.queue(slice, step, at + slice.size() == prompt.size());
        }
        queued[static_cast<std::size_t>(step)] = 1;
      }
      std::vector<int> sequences;
      for (int i = 0; i < kSequences; ++i) {
        int& count = queued[static_cast<std::size_t>(i)];
        if (count > 0 && count < 6) ++count, sequences.push_back(i);
      }
      if (!sequences.empty()) generator.queue_chosen(sequences);
      generator.wait_for_others();
    }
    generator.drain();
    for (std::size_t t = 0; t < kSequences; ++t) {
      EXPECT_EQ(found[t], expected[t]) << placement.name << ", text " << t;
      EXPECT_EQ(generator.length(static_cast<int>(t)), all[t].prompt + 5);
    }
    // What is given up leaves the sequences as they were.
    const std::int64_t before = generator.length(0);
    const Generator::Token unwanted{.sequence = 0, .id = 1};
    generator.queue_each({&unwanted, 1}, false);
    generator.abandon();
    generator.keep(before, 0);
    const auto one_more = copied(generator.advance({&expected[0][0], 1}, 0));
    generator.keep(before, 0);
    EXPECT_EQ(copied(generator.advance({&expected[0][0], 1}, 0)), one_more);
  }
}

TEST_P(SequencesTest, EachIsAsLongAsItsOwnCache) {
  Generator generator(runtime_, files_, source(), settings(test_placements()[0], DType::f32, 2));
  EXPECT_EQ(generator.sequences(), 2);
  const std::vector<std::int32_t> ids(kPositions, 1);
  generator.advance(ids, 1);
  EXPECT_EQ(generator.length(1), kPositions);
  EXPECT_EQ(generator.length(0), 0);
  EXPECT_THROW(generator.advance({ids.data(), 1}, 1), ConfigError);
  EXPECT_NO_THROW(generator.advance({ids.data(), 1}, 0));
  EXPECT_THROW(generator.advance({ids.data(), 1}, 2), std::exception);
  EXPECT_THROW(generator.copy(0, 1, 2), Error);
  EXPECT_THROW(generator.copy(1, 1, 2), Error);
  generator.copy(1, 0, 9);
  EXPECT_EQ(generator.length(0), 9);
}

INSTANTIATE_TEST_SUITE_P(Families, SequencesTest,
                         testing::Values("training/llama", "families/gpt2", "families/qwen3",
                                         "families/gemma"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace ebb::engine
