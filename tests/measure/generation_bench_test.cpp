// `ebb bench generate`: which tests there are, what they cost at least, and that ceilings are read.
#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/rng.h"
#include "ebb/error.h"
#include "engine/small_runs.h"
#include "engine/workload.h"
#include "measure/bench/generation_report.h"
#include "measure/bench/reading.h"

namespace ebb::measure {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(GenerationTests, AreNamedAsPeopleKnowThem) {
  EXPECT_EQ((GenerationTest{.prompt = 512}).name(), "pp512");
  EXPECT_EQ((GenerationTest{.tokens = 128}).name(), "tg128");
  EXPECT_EQ((GenerationTest{.depth = 8192, .prompt = 512, .tokens = 128}).name(),
            "pp512+tg128 @ d8192");
  EXPECT_EQ((GenerationTest{.depth = 512, .tokens = 128, .batch = 32}).name(), "tg128 x 32 @ d512");
}

TEST(GenerationTests, SomeStandForNoneGiven) {
  const std::vector<GenerationTest> usual = generation_tests({});
  ASSERT_EQ(usual.size(), 2u);
  EXPECT_EQ(usual[0].name(), "pp512");
  EXPECT_EQ(usual[1].name(), "tg128");
  GenerateBenchOptions o;
  o.tokens = {4};
  o.depths = {0, 7};
  ASSERT_EQ(generation_tests(o).size(), 2u) << "what is given is all";
  EXPECT_EQ(generation_tests(o)[1].name(), "tg4 @ d7");
  o.batches = {1, 8};
  ASSERT_EQ(generation_tests(o).size(), 4u);
  EXPECT_EQ(generation_tests(o)[3].name(), "tg4 x 8 @ d7");
  o.batches = {0};
  EXPECT_THROW(generation_tests(o), ConfigError);
  o.batches = {};
  o.depths = {-1};
  EXPECT_THROW(generation_tests(o), ConfigError);
  EXPECT_EQ(generation_setups({}, "cpu").at(0).model, "preset:small");
  EXPECT_EQ(generation_setups({}, "cuda").at(0).model, "preset:qwen2.5-7b");
}

TEST(GenerationTests, LongerThanTheModelKnowsIsRefused) {
  const model::Config config = engine::small_config();
  const std::int64_t most = config.max_positions;
  EXPECT_NO_THROW(check_positions({{.depth = most - 4, .tokens = 4}}, "m", config));
  EXPECT_THROW(check_positions({{.depth = most - 3, .tokens = 4}}, "m", config), ConfigError);
}

// The plan of a test, as the bench makes it.
plan::GenerationPlan plan_of(const model::Config& config, const GenerationTest& test) {
  static engine::Runtime runtime("cpu", 1);
  return engine::plan_generation(
      runtime, {.config = config,
                .dtype = DType::bf16,
                .sequences = test.batch,
                .positions = test.positions(),
                .prompt_tokens = test.depth + test.prompt,
                .limits = {{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}}});
}

TEST(GenerationCeiling, FlopsAreThoseThatTheOpsCount) {
  for (const bool tied : {false, true}) {
    model::Config config = engine::small_config();
    config.tied = tied;
    // One slice, so that the plan counts all of it.
    const GenerationTest test{.prompt = 40};
    const plan::GenerationPlan plan = plan_of(config, test);
    ASSERT_EQ(plan.slices, 1);
    double products = 0, attention = 0;
    for (const plan::Block& block : plan.slice.workload.blocks) {
      products += block.forward.flops + block.forward.narrow_flops;
      attention += block.forward.attention_flops;
    }
    const double flops = generation_cost(config, plan, test.positions(), test).flops;
    EXPECT_GE(flops, products);
    // Exponentials are counted there and are no products here.
    EXPECT_LE(flops, products + attention);
    EXPECT_NEAR(flops / (products + attention), 1, 0.05);
  }
}

TEST(GenerationCeiling, TokensReadWeightsAndTheCacheBeforeThem) {
  for (const bool tied : {false, true}) {
    model::Config config = engine::small_config();
    config.tied = tied;
    const GenerationTest test{.depth = 100, .tokens = 10};
    const GenerationCost cost = generation_cost(config, plan_of(config, test), 110, test);
    EXPECT_EQ(cost.flops, 0);
    const double parameters = static_cast<double>(model::parameters_of(config).count());
    const double table = static_cast<double>(config.vocabulary * config.hidden);
    const double weights = 2 * (tied ? parameters : parameters - table);
    // Keys and values of 101 to 110 positions.
    const double cache = 2 * 2 * static_cast<double>(config.kv_width() * config.layers) * 105.5;
    const double read = cost.read_bytes[plan::Tier::device] / 10;
    // Blocks are padded.
    EXPECT_GE(read, weights + cache);
    EXPECT_LE(read, weights + cache + 2 * 4096);
    EXPECT_EQ(cost.read_bytes[plan::Tier::host], 0);
  }
}

// Of several sequences the weights are read once for all, and the cache of each.
TEST(GenerationCeiling, ABatchReadsTheWeightsOnce) {
  const model::Config config = engine::small_config();
  const auto read = [&](std::int64_t depth, std::int64_t batch) {
    const GenerationTest test{.depth = depth, .tokens = 1, .batch = batch};
    return generation_cost(config, plan_of(config, test), depth + 1, test)
        .read_bytes[plan::Tier::device];
  };
  const double weights = read(0, 1), cache = read(127, 1) - weights;
  // A text's first positions are read with the weights: of one sequence here, of eight there.
  EXPECT_NEAR(read(127, 8) - weights, 8 * cache, 0.2 * cache);
  const GenerationTest prompts{.prompt = 40, .batch = 3}, one{.prompt = 40};
  EXPECT_EQ(generation_cost(config, plan_of(config, prompts), 40, prompts).flops,
            3 * generation_cost(config, plan_of(config, one), 40, one).flops);
}

TEST(GenerationCeiling, WindowsBoundTheCacheAndTheScores) {
  model::Config config = engine::small_config(), windowed = config;
  windowed.windows = {16, 16, 16};
  const GenerationTest tokens{.depth = 100, .tokens = 10}, prompt{.depth = 100, .prompt = 10};
  const auto cost = [](const model::Config& of, const GenerationTest& test) {
    return generation_cost(of, plan_of(of, test), 110, test);
  };
  const double each = 2 * 2 * static_cast<double>(config.kv_width() * config.layers);
  EXPECT_NEAR(cost(config, tokens).read_bytes[plan::Tier::device] -
                  cost(windowed, tokens).read_bytes[plan::Tier::device],
              10 * each * (105.5 - 16), 1e-6);
  EXPECT_NEAR(cost(config, prompt).flops - cost(windowed, prompt).flops,
              4 * static_cast<double>(config.query_width() * config.layers) * 10 * (105.5 - 16),
              1e-6);
}

TEST(GenerationCeiling, EveryMemoryHasItsOwnRate) {
  GenerationCost cost{.flops = 10};
  cost.read_bytes[plan::Tier::device] = 6;
  cost.read_bytes[plan::Tier::host] = 8;
  const GenerationRates rates{.host = {4, "slow"}, .device = {3, "slower"}, .matrix_flops = 2};
  EXPECT_DOUBLE_EQ(ceiling_seconds(cost, rates).value(), 10 / 2 + 6 / 3 + 8 / 4);
  cost.read_bytes[plan::Tier{2}] = 1;
  EXPECT_EQ(ceiling_seconds(cost, rates), std::nullopt);
}

TEST(Reading, EveryWayReadsEveryByteOnce) {
  // A prime number of lines: no number of streams or ranges divides it.
  std::vector<std::uint64_t> words(8 * (9973 + 1));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = mix_bits(i);
  auto* first = words.data();
  while (reinterpret_cast<std::uintptr_t>(first) % kLine != 0) ++first;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < 8 * 9973; ++i) all ^= first[i];
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const ReadWay& way : read_ways()) {
      EXPECT_EQ(read_pass(pool, {reinterpret_cast<std::byte*>(first), 64 * 9973}, way), all)
          << way.name() << ", " << threads << " threads";
    }
  }
}

TEST(Reading, TheFastestWayIsTheRate) {
  engine::Runtime runtime("cpu", 2);
  const ReadRate rate = host_read_rate(runtime, 0);
  EXPECT_GT(rate.bytes_per_second, 0);
  std::vector<std::string> names;
  for (const ReadWay& way : read_ways()) names.push_back(way.name());
  EXPECT_THAT(names, testing::Contains(rate.way));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

GenerationRow row_of(const GenerationTest& test, std::vector<double> seconds) {
  GenerationRow row{.setup = {.model = "preset:tiny"}, .test = test, .threads = 2};
  row.parameters = 1000;
  row.weight_bytes = 4096;
  row.places = {{"device", 4096}};
  row.predicted_seconds = 2;
  row.seconds = std::move(seconds);
  row.rates = {.host = {1e9, "a way"}, .device = {1e9, "a way"}, .matrix_flops = 1e9};
  row.cost.read_bytes[plan::Tier::device] = 1e9;
  return row;
}

TEST(GenerationReport, MeansDeviationsAndShares) {
  const GenerationRow row = row_of({.tokens = 12}, {2, 3, 4});  // 6, 4 and 3 tokens a second
  EXPECT_NEAR(row.speed(), 13.0 / 3, 1e-12);
  EXPECT_NEAR(row.deviation(), std::sqrt((25 + 1 + 16) / 9.0 / 2), 1e-12);
  EXPECT_EQ(row.predicted_speed(), 6);
  EXPECT_EQ(row.ceiling_speed(), 12);
  EXPECT_NEAR(row.share_of_ceiling().value(), 13.0 / 36, 1e-12);
  EXPECT_EQ(row_of({.tokens = 1}, {2}).deviation(), 0) << "of one";
  const std::string text = to_text({row});
  EXPECT_THAT(text, AllOf(HasSubstr("4.33 ± 1.53"), HasSubstr("36.1%"), HasSubstr("| tg12 |"),
                          Not(HasSubstr("device memory")), Not(HasSubstr("weights"))));
}

TEST(GenerationReport, ColumnsOfLimitsAndPlacesAppearWhereThereAreSome) {
  GenerationRow split = row_of({.tokens = 1}, {1}), refused = split;
  split.setup.device_memory = kGiB;
  split.places = {{"device", 1024}, {"host", 3072}};
  refused.refusal = "table\nMissing on the device: 5 MiB\nmore";
  refused.places.clear();
  const std::string text = to_text({split, refused});
  EXPECT_THAT(text, AllOf(HasSubstr("| device memory |"), HasSubstr("1.00 GiB"),
                          HasSubstr("25% device, 75% host"), HasSubstr("| does not fit |"),
                          HasSubstr("tg1: does not fit: Missing on the device: 5 MiB\n"),
                          Not(HasSubstr("host memory |"))));
  EXPECT_TRUE(to_json(refused).contains("does_not_fit"));
  // Lines of the table are equally long.
  std::istringstream lines(text);
  std::string first, line;
  std::getline(lines, first);
  while (std::getline(lines, line) && line.starts_with("|")) {
    const auto extra = std::count(line.begin(), line.end(), '\xc2');  // of "±"
    EXPECT_EQ(line.size(), first.size() + static_cast<std::size_t>(extra)) << line;
  }
}

}  // namespace
}  // namespace ebb::measure
