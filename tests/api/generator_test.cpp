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

TEST_F(GeneratorTest, WritesWhatFitsWhereNobodyAsksForMore) {
  Generator generator(Model::open(run), small(16));
  SamplingOptions sampling;
  sampling.temperature = 0;
  const GenerateSummary cut = generator.generate("line 1", sampling);
  EXPECT_EQ(cut.tokens, 10);
  EXPECT_THAT(cut.note, HasSubstr("At most 10 tokens are written: the prompt has 6"));
  sampling.max_tokens = 10;
  EXPECT_EQ(generator.generate("line 1", sampling).note, "");
}

// Bytes are tokens, so that every stop text spans several.
TEST_F(GeneratorTest, EndsBeforeAStopText) {
  Generator generator(Model::open(run), small());
  const std::string whole = generator.generate("line", drawing(3)).text;
  ASSERT_GE(whole.size(), 12u);
  SamplingOptions sampling = drawing(3);
  sampling.stop = {"no such text", whole.substr(6, 4)};
  const std::size_t end = whole.find(sampling.stop[1]);
  std::string streamed;
  const GenerateSummary summary = generator.generate(
      "line", sampling, [&](std::string_view piece) { return streamed += piece, true; });
  EXPECT_EQ(summary.ended_by, EndedBy::stop_text);
  EXPECT_EQ(summary.text, whole.substr(0, end));
  EXPECT_EQ(streamed, summary.text);
  EXPECT_LT(summary.tokens, 24);
  // What only looked like one comes at the end.
  sampling.stop = {whole.substr(whole.size() - 3) + "\x01"};
  EXPECT_EQ(generator.generate("line", sampling).text, whole);
}

TEST_F(GeneratorTest, LogProbabilitiesComeWithEveryToken) {
  Generator generator(Model::open(run), small());
  SamplingOptions sampling = drawing(2);
  sampling.temperature = 0;
  sampling.log_probs = 3;
  const GenerateSummary summary = generator.generate("line", sampling);
  ASSERT_EQ(summary.log_probabilities.size(), summary.ids.size());
  for (std::size_t i = 0; i < summary.ids.size(); ++i) {
    const TokenLogProbabilities& token = summary.log_probabilities[i];
    EXPECT_EQ(token.chosen.id, summary.ids[i]);
    ASSERT_EQ(token.likeliest.size(), 3u);
    EXPECT_EQ(token.likeliest[0].id, summary.ids[i]);
    EXPECT_EQ(token.likeliest[0].log_probability, token.chosen.log_probability);
    EXPECT_LE(token.chosen.log_probability, 0);
    EXPECT_GE(token.likeliest[1].log_probability, token.likeliest[2].log_probability);
  }
  const auto json = nlohmann::json::parse(summary.json);
  EXPECT_EQ(json["log_probabilities"].size(), summary.ids.size());
  EXPECT_EQ(json["log_probabilities"][0]["likeliest"].size(), 3u);
  sampling.log_probs.reset();
  EXPECT_FALSE(nlohmann::json::parse(generator.generate("line", sampling).json)
                   .contains("log_probabilities"));
}

// Slices alone, unless all is asked for: then the text before is kept, too, up to the first token
// that is another.
TEST_F(GeneratorTest, PromptsThatBeginAlikeKeepWhatWasComputed) {
  const Model model = Model::open(run);
  GeneratorOptions all = small();
  all.reuse = PrefixReuse::all;
  Generator keeps(model, all);
  SamplingOptions sampling = drawing(1);
  sampling.max_tokens = 8;
  sampling.temperature = 0;
  const GenerateSummary first = keeps.generate("line 12", sampling);
  EXPECT_EQ(first.reused_tokens, 0);
  ASSERT_EQ(first.tokens, 8);
  std::vector<std::int32_t> longer = model.encode("line 12");
  longer.insert(longer.end(), first.ids.begin(), first.ids.end());
  longer.insert(longer.end(), {33, 34});
  // The last token was chosen, but never computed.
  EXPECT_EQ(keeps.generate(longer, sampling).reused_tokens, 7 + 7);
  EXPECT_EQ(keeps.generate(longer, sampling).reused_tokens, 7 + 8 + 2 - 1) << "one is computed";
  EXPECT_EQ(keeps.generate("line 99", sampling).reused_tokens, 5);
  EXPECT_EQ(keeps.generate("the tide", sampling).reused_tokens, 0);
  EXPECT_EQ(keeps.generate("line 12", sampling).text, first.text);

  Generator exact(model, small());
  exact.generate("line 12", sampling);
  const GenerateSummary again = exact.generate(longer, sampling);
  EXPECT_EQ(again.text, Generator(model, small()).generate(longer, sampling).text);
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
  SamplingOptions many;
  many.max_tokens = 0;
  EXPECT_EQ(flag_of("line", many), "--max-tokens");
  // More than there is room for is cut.
  many.max_tokens = 30;
  EXPECT_LE(std::ssize(generator.generate("line", many).ids), 16 - 4);
  SamplingOptions silent = few;
  silent.stop = {"x", ""};
  EXPECT_EQ(flag_of("line", silent), "--stop");
  SamplingOptions talkative = few;
  talkative.log_probs = -1;
  EXPECT_EQ(flag_of("line", talkative), "--log-probs");
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
