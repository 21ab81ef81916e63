// Texts beside each other: each is the one that its prompt gets alone, whoever joins, leaves, is
// called off or fails meanwhile.
#include <optional>
#include <stdexcept>
#include <vector>

#include "api/small_training.h"
#include "base/rng.h"
#include "ebb/error.h"
#include "ebb/generator.h"

namespace ebb {
namespace {

class TextBatchTest : public testing::Test {
 protected:
  // On a GPU products of several rows may round otherwise.
  void SetUp() override {
    if (engine::test_device() != "cpu") GTEST_SKIP() << "promised on the cpu device";
  }

  Generator make(std::int64_t sequences, std::optional<std::int64_t> slice = 4) const {
    GeneratorOptions o{.positions = 64, .sequences = sequences, .device = small_device()};
    o.placement.slice = slice;
    return Generator(Model::open(kModel), o);
  }

  // Ways of choosing tokens that differ, of prompts of which some begin alike.
  static std::vector<TextJob> jobs(std::size_t count) {
    std::vector<TextJob> all;
    const CounterRng rng(11, 0);
    const std::vector<std::string> prompts = {"line 12", "the tide", "line 12: the",
                                              "",        "x",        "line 99: the tide comes"};
    for (std::size_t i = 0; i < count; ++i) {
      TextJob job;
      job.prompt.text = prompts[i % prompts.size()];
      job.sampling.max_tokens = 1 + static_cast<std::int64_t>(rng.below(i, 20));
      job.sampling.seed = i;
      if (i % 2 == 0) job.sampling.temperature = 0;
      if (i % 3 == 0) job.sampling.top_k = 20;
      if (i % 3 == 1) job.sampling.top_p = 0.7;
      if (i % 4 == 1) job.sampling.min_p = 0.01;
      if (i % 4 == 3) job.sampling.repetition_penalty = 1.3;
      if (i % 5 == 2) job.sampling.log_probs = 2;
      if (i % 5 == 4) job.sampling.stop = {" ", "t"};
      all.push_back(std::move(job));
    }
    return all;
  }

  static void expect_equal(const GenerateSummary& found, const GenerateSummary& wanted,
                           const std::string& where) {
    EXPECT_EQ(found.ids, wanted.ids) << where;
    EXPECT_EQ(found.text, wanted.text) << where;
    EXPECT_EQ(found.ended_by, wanted.ended_by) << where;
    EXPECT_EQ(found.prompt_tokens, wanted.prompt_tokens) << where;
    ASSERT_EQ(found.log_probabilities.size(), wanted.log_probabilities.size()) << where;
    for (std::size_t i = 0; i < found.log_probabilities.size(); ++i) {
      EXPECT_EQ(found.log_probabilities[i].chosen.log_probability,
                wanted.log_probabilities[i].chosen.log_probability)
          << where << ", token " << i;
    }
  }

  // Its weights are random, and so are the texts.
  static constexpr const char* kModel = "preset:tiny";
};

TEST_F(TextBatchTest, EveryTextIsTheOneOfItsPromptAlone) {
  const std::vector<TextJob> all = jobs(18);
  std::vector<GenerateSummary> expected;
  {
    Generator one = make(1);
    for (const TextJob& job : all) {
      expected.push_back(one.generate(job.prompt.text, job.sampling));
    }
  }
  for (const std::int64_t sequences : {1, 2, 5}) {
    Generator generator = make(sequences);
    EXPECT_EQ(generator.sequences(), sequences);
    const CounterRng rng(static_cast<std::uint64_t>(sequences), 1);
    std::vector<std::optional<GenerateSummary>> found(all.size());
    std::vector<std::string> streamed(all.size());
    std::int64_t reused = 0;
    std::size_t next = 0, draws = 0, ended = 0;
    bool more = true;
    while (more || next < all.size()) {
      // They join at random moments.
      while (next < all.size() && (!more || rng.below(draws++, 4) == 0)) {
        TextJob job = all[next];
        const std::size_t i = next++;
        job.sink = [&streamed, i](std::string_view piece) { return streamed[i] += piece, true; };
        job.ended = [&, i](const GenerateSummary& summary) {
          EXPECT_FALSE(found[i]) << i;
          found[i] = summary;
          ++ended;
        };
        generator.begin(std::move(job));
        more = true;
      }
      more = generator.advance();
    }
    EXPECT_EQ(ended, all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string where = fmt::format("{} sequences, text {}", sequences, i);
      ASSERT_TRUE(found[i]) << where;
      expect_equal(*found[i], expected[i], where);
      EXPECT_EQ(streamed[i], found[i]->text) << where;
      reused += found[i]->reused_tokens;
    }
    EXPECT_GT(reused, 0) << sequences;
    EXPECT_FALSE(generator.advance());
  }
}

TEST_F(TextBatchTest, WhoIsCalledOffLeavesAlone) {
  const std::vector<TextJob> all = jobs(6);
  Generator one = make(1), generator = make(3);
  std::vector<std::stop_source> stops(all.size());
  std::vector<std::optional<GenerateSummary>> found(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    TextJob job = all[i];
    job.sampling.max_tokens = 24;
    job.sampling.stop = {};
    job.stop = stops[i].get_token();
    job.ended = [&found, i](const GenerateSummary& summary) { found[i] = summary; };
    // The third says so itself, the fourth by its sink.
    if (i == 2) {
      job.sink = [&stops, count = 0](std::string_view) mutable {
        if (++count == 2) stops[2].request_stop();
        return true;
      };
    }
    if (i == 3) job.sink = [](std::string_view) { return false; };
    generator.begin(std::move(job));
  }
  stops[5].request_stop();  // waits
  for (int i = 0; i < 3; ++i) generator.advance();
  stops[1].request_stop();  // is under way
  while (generator.advance()) {
  }
  for (const std::size_t i : {1, 2, 3, 5}) {
    ASSERT_TRUE(found[i]) << i;
    EXPECT_EQ(found[i]->ended_by, EndedBy::caller) << i;
    EXPECT_LT(found[i]->tokens, 24) << i;
  }
  EXPECT_EQ(found[5]->tokens, 0);
  for (const std::size_t i : {0, 4}) {
    SamplingOptions sampling = all[i].sampling;
    sampling.max_tokens = 24;
    sampling.stop = {};
    ASSERT_TRUE(found[i]) << i;
    expect_equal(*found[i], one.generate(all[i].prompt.text, sampling), fmt::format("text {}", i));
  }
}

TEST_F(TextBatchTest, WhatACallbackThrowsTakesItsTextAloneOut) {
  const std::vector<TextJob> all = jobs(3);
  Generator one = make(1), generator = make(2);
  std::vector<std::optional<GenerateSummary>> found(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    TextJob job = all[i];
    job.sampling.max_tokens = 12;
    job.sampling.stop = {};
    if (i == 1) {
      job.sink = [](std::string_view) -> bool { throw std::runtime_error("no room to write"); };
    }
    job.ended = [&found, i](const GenerateSummary& summary) { found[i] = summary; };
    generator.begin(std::move(job));
  }
  int thrown = 0;
  for (bool more = true; more;) {
    try {
      more = generator.advance();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no room to write");
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  EXPECT_FALSE(found[1]);
  for (const std::size_t i : {0, 2}) {
    SamplingOptions sampling = all[i].sampling;
    sampling.max_tokens = 12;
    sampling.stop = {};
    ASSERT_TRUE(found[i]) << i;
    expect_equal(*found[i], one.generate(all[i].prompt.text, sampling), fmt::format("text {}", i));
  }
  // As before for who comes next.
  expect_equal(generator.generate("line", all[0].sampling), one.generate("line", all[0].sampling),
               "afterwards");
}

// One call of generate() beside texts that were begun: all go on.
TEST_F(TextBatchTest, TextsThatWereBegunGoOnBesideOneThatIsWaitedFor) {
  Generator one = make(1), generator = make(2);
  SamplingOptions sampling;
  sampling.max_tokens = 20;
  sampling.temperature = 0.9;
  std::optional<GenerateSummary> other, third;
  TextJob last{.prompt = {.text = "tide"}, .sampling = sampling};
  last.ended = [&](const GenerateSummary& summary) { third = summary; };
  TextJob job{.prompt = {.text = "line 3"}, .sampling = sampling};
  job.ended = [&](const GenerateSummary& summary) {
    other = summary;
    generator.begin(last);
  };
  generator.begin(std::move(job));
  generator.advance();
  expect_equal(generator.generate("the tide", sampling), one.generate("the tide", sampling), "own");
  while (generator.advance()) {
  }
  ASSERT_TRUE(other && third);
  expect_equal(*other, one.generate("line 3", sampling), "the other");
  expect_equal(*third, one.generate("tide", sampling), "one that the other's end began");
}

TEST_F(TextBatchTest, RefusesWhatGenerateRefuses) {
  Generator generator = make(2);
  TextJob job{.prompt = {.text = "line"}};
  job.sampling.max_tokens = 0;
  EXPECT_THROW(generator.begin(job), ConfigError);
  EXPECT_FALSE(generator.advance());
  for (const std::int64_t sequences : {0, -1, 100'000}) {
    EXPECT_THROW(make(sequences), ConfigError) << sequences;
  }
}

// Answers come in the order of their prompts, however many are written at once.
TEST_F(TextBatchTest, PromptsAreAnsweredInTheirOrder) {
  GenerateOptions o;
  o.model = kModel;
  o.device = small_device();
  o.max_tokens = 8;
  o.placement.slice = 4;
  std::vector<Prompt> prompts;
  for (const char* text : {"line 1", "the tide", "line 12: the tide comes in", "a"}) {
    prompts.push_back({.text = text});
  }
  std::vector<GenerateSummary> expected;
  const auto texts = [&] {
    std::vector<GenerateSummary> all;
    generate_each(o, prompts, [&](const GenerateSummary& s) { return all.push_back(s), true; });
    return all;
  };
  expected = texts();
  ASSERT_EQ(expected.size(), prompts.size());
  for (const std::int64_t sequences : {2, 3, 100}) {
    o.sequences = sequences;
    const std::vector<GenerateSummary> found = texts();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      expect_equal(found[i], expected[i], fmt::format("{} sequences, text {}", sequences, i));
    }
  }
  int told = 0;
  generate_each(o, prompts, [&](const GenerateSummary&) { return ++told < 2; });
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace ebb
