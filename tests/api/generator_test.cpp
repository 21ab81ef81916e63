// One model, several generators, many texts: each what a process of its own would write.
#include "ebb/generator.h"

#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "api/small_training.h"
#include "ebb/error.h"
#include "paths.h"

namespace ebb {
namespace {

using testing::HasSubstr;

class GeneratorTest : public SmallTraining {
 protected:
  GeneratorTest() {
    Listener listener;
    run = train(options("run", 5), listener).checkpoint;
  }

  static SamplingOptions drawing(std::uint64_t seed) {
    SamplingOptions sampling;
    sampling.max_tokens = 24;
    sampling.temperature = 0.9;
    sampling.seed = seed;
    return sampling;
  }

  std::string by_verb(const std::string& prompt, std::uint64_t seed) const {
    GenerateOptions o;
    static_cast<SamplingOptions&>(o) = drawing(seed);
    o.model = run;
    o.prompt = prompt;
    o.device = small_device();
    return generate(o, {}).text;
  }

  static GeneratorOptions small(std::int64_t positions = 64) {
    return {.positions = positions, .device = small_device()};
  }

  std::string run;
};

TEST_F(GeneratorTest, ManyTextsOfOneAreThoseOfTheVerb) {
  Generator generator(Model::open(run), small());
  for (const auto& [prompt, seed] :
       {std::pair{"line 1", 1}, {"the tide", 2}, {"line 1", 1}, {"", 3}}) {
    std::string pieces;
    const GenerateSummary summary =
        generator.generate(prompt, drawing(static_cast<std::uint64_t>(seed)),
                           [&](std::string_view piece) { return pieces += piece, true; });
    EXPECT_EQ(summary.text, by_verb(prompt, static_cast<std::uint64_t>(seed))) << prompt;
    EXPECT_EQ(pieces, summary.text);
    EXPECT_EQ(static_cast<std::int64_t>(summary.ids.size()), summary.tokens);
    EXPECT_GT(summary.device_peak, 0);
    EXPECT_LE(summary.device_peak, summary.device_limit);
  }
}

TEST_F(GeneratorTest, SeveralOfOneModelAtOnce) {
  const Model model = Model::open(run);
  const std::string expected = by_verb("line 7", 5);
  Generator first(model, small());
  Generator second(model, small(40));
  EXPECT_EQ(second.positions(), 40);
  std::string of_second;
  std::thread other([&] { of_second = second.generate("line 7", drawing(5)).text; });
  EXPECT_EQ(first.generate("line 7", drawing(5)).text, expected);
  other.join();
  EXPECT_EQ(of_second, expected);
  Generator moved = std::move(first);
  EXPECT_EQ(moved.generate("line 7", drawing(5)).text, expected);
}

// Its files are not needed any more once the weights are there.
TEST_F(GeneratorTest, IdsAreAsGoodAsTextAndFilesMayGo) {
  const Model model = Model::open(run);
  EXPECT_TRUE(model.has_weights());
  EXPECT_FALSE(model.has_chat_template());
  EXPECT_GT(model.parameters(), 0);
  EXPECT_GE(model.vocabulary(), 257);
  const std::vector<std::int32_t> ids = model.encode("line 9");
  EXPECT_EQ(model.decode(ids), "line 9");
  const std::string expected = by_verb("line 9", 4);
  Generator generator(model, small());
  std::filesystem::remove_all(run);
  EXPECT_EQ(generator.generate(ids, drawing(4)).text, expected);
}

TEST_F(GeneratorTest, StopsWhenItIsToldTo) {
  Generator generator(Model::open(run), small());
  std::stop_source source;
  int pieces = 0;
  const GenerateSummary summary = generator.generate(
      "line", drawing(1),
      [&](std::string_view) {
        if (++pieces == 3) source.request_stop();
        return true;
      },
      source.get_token());
  EXPECT_EQ(summary.ended_by, EndedBy::caller);
  EXPECT_LT(summary.tokens, 24);
  EXPECT_EQ(generator.generate("line", drawing(1), [](std::string_view) { return false; }).ended_by,
            EndedBy::caller);
  EXPECT_THROW(Generator(Model::open(run), small(), source.get_token()), Cancelled);
}

TEST_F(GeneratorTest, RefusesAndGoesOn) {
  Generator generator(Model::open(run), small(16));
  const auto flag_of = [&](const std::string& prompt, SamplingOptions sampling) {
    try {
      generator.generate(prompt, sampling);
    } catch (const ConfigError& error) {
      return error.flag();
    }
    return std::string("(no error)");
  };
  SamplingOptions few;
  few.max_tokens = 4;
  SamplingOptions cold = few;
  cold.temperature = -1;
  EXPECT_EQ(flag_of("line", {}), "--max-tokens");
  EXPECT_EQ(flag_of(std::string(40, 'a'), few), "--prompt");
  EXPECT_EQ(flag_of("line", cold), "--temperature");
  EXPECT_THROW(generator.answer({{"user", "Hello?"}}, few), ConfigError);
  // No row of the embedding has them: ops would pass over them.
  const auto vocabulary = static_cast<std::int32_t>(generator.model().vocabulary());
  for (const std::int32_t id : {-1, vocabulary, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_THROW(generator.generate(std::vector<std::int32_t>{1, id}, few), ConfigError) << id;
  }
  EXPECT_EQ(generator.generate("line", few).tokens, 4);
  GeneratorOptions tight = small();
  tight.device_memory = 64 * kKiB;
  EXPECT_THROW(Generator(Model::open(run), tight), OutOfBudget);
}

}  // namespace
}  // namespace ebb
