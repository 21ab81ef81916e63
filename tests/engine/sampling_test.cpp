// The choice of the next token.
#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ebb/error.h"

namespace ebb::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::map<std::int32_t, int> draw(const std::vector<float>& logits, const Sampling& sampling,
                                 int times) {
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < times; ++i) ++counts[sample(logits, sampling, i)];
  return counts;
}

// Logits of the given probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(Sampling, TakesTheLikeliestAtTemperatureZero) {
  const Sampling greedy{.temperature = 0};
  EXPECT_EQ(sample(std::vector<float>{1, 5, 3}, greedy, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{2, 7, 7, 1}, greedy, 3), 1) << "the first of equals";
  EXPECT_EQ(sample(std::vector<float>{-9}, greedy, 0), 0);
}

TEST(Sampling, IsGreedyWithOneCandidate) {
  const std::vector<float> logits = {0.1f, 0.3f, 0.2f, 0.3f};
  for (const Sampling& s :
       {Sampling{.top_k = 1}, Sampling{.top_p = 1e-9}, Sampling{.temperature = 1e-300}}) {
    for (int i = 0; i < 200; ++i) {
      const std::int32_t id = sample(logits, s, i);
      // At almost no temperature equals stay equal.
      EXPECT_TRUE(id == 1 || (s.temperature < 1 && id == 3)) << id << " at " << i;
    }
  }
}

TEST(Sampling, DrawsAsOftenAsTheProbabilitiesSay) {
  const std::vector<double> p = {0.5, 0.25, 0.15, 0.1};
  const int times = 40'000;
  const auto counts = draw(logits_of(p), {.seed = 11}, times);
  for (std::size_t i = 0; i < p.size(); ++i) {
    // Five standard deviations.
    const double slack = 5 * std::sqrt(p[i] * (1 - p[i]) * times);
    EXPECT_NEAR(counts.at(static_cast<std::int32_t>(i)), p[i] * times, slack) << "token " << i;
  }
}

TEST(Sampling, FlattensAndSharpensWithTemperature) {
  const std::vector<double> p = {0.8, 0.2};
  const int times = 20'000;
  for (const double temperature : {0.5, 2.0}) {
    const auto counts = draw(logits_of(p), {.temperature = temperature, .seed = 2}, times);
    const double a = std::pow(p[0], 1 / temperature), b = std::pow(p[1], 1 / temperature);
    EXPECT_NEAR(counts.at(0), a / (a + b) * times, 5 * std::sqrt(times) / 2) << temperature;
  }
}

TEST(Sampling, KeepsTheKLikeliest) {
  const std::vector<float> logits = {0, 3, 1, 2, 3};
  const auto counts = draw(logits, {.top_k = 3}, 5000);
  EXPECT_EQ(counts.size(), 3u);
  for (const std::int32_t id : {1, 3, 4}) EXPECT_TRUE(counts.contains(id)) << id;
  EXPECT_EQ(draw(logits, {.top_k = 5}, 5000), draw(logits, {.top_k = 0}, 5000));
  EXPECT_EQ(draw(logits, {.top_k = 1'000'000}, 5000), draw(logits, {.top_k = 0}, 5000));
  // Among equals at the border the first stay.
  const auto equals = draw({1, 1, 1, 1}, {.top_k = 2}, 2000);
  EXPECT_EQ(equals.size(), 2u);
  EXPECT_TRUE(equals.contains(0) && equals.contains(1));
}

TEST(Sampling, KeepsTheShortestHeadWithTheProbability) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});  // in order: 1, 3, 2, 0
  const auto kept = [&](double top_p) { return draw(logits, {.top_p = top_p}, 5000).size(); };
  EXPECT_EQ(kept(0.39), 1u);
  EXPECT_EQ(kept(0.41), 2u);
  EXPECT_EQ(kept(0.69), 2u);
  EXPECT_EQ(kept(0.71), 3u);
  EXPECT_EQ(kept(0.91), 4u);
  EXPECT_EQ(kept(1.0), 4u);
  const auto two = draw(logits, {.top_p = 0.5}, 5000);
  EXPECT_TRUE(two.contains(1) && two.contains(3));
  EXPECT_NEAR(two.at(1), 5000 * 0.4 / 0.7, 5 * std::sqrt(5000.0) / 2) << "made to add up again";
  // The probability is a share of what top-k left.
  EXPECT_EQ(draw(logits, {.top_k = 2, .top_p = 0.56}, 5000).size(), 1u);
}

TEST(Sampling, RepeatsItselfForASeedAndAPosition) {
  const std::vector<float> logits(50, 0.0f);
  const auto sequence = [&](std::uint64_t seed) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sample(logits, {.seed = seed}, i));
    return ids;
  };
  EXPECT_EQ(sequence(1), sequence(1));
  EXPECT_NE(sequence(1), sequence(2));
  EXPECT_GT(draw(logits, {.seed = 1}, 50).size(), 15u) << "positions draw anew";
}

TEST(Sampling, BearsLogitsFarApart) {
  EXPECT_EQ(draw({-1e30f, 1e30f, 0}, {}, 500).size(), 1u);
  EXPECT_EQ(sample(std::vector<float>{-3e38f, 3e38f}, {.temperature = 1e-3}, 0), 1);
}

TEST(Sampling, RefusesLogitsThatAreNotFinite) {
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (const double temperature : {0.0, 1.0}) {
      EXPECT_THROW(sample(std::vector<float>{1, bad, 2}, {.temperature = temperature}, 0),
                   NumericsError)
          << bad << " at temperature " << temperature;
    }
  }
}

TEST(Sampling, NamesTheFlagThatIsWrong) {
  const auto message = [](const Sampling& s) -> std::string {
    try {
      validate(s);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({}), "accepted");
  EXPECT_EQ(message({.temperature = 0, .top_k = 1, .top_p = 0.1}), "accepted");
  EXPECT_EQ(message({.temperature = -0.5}), "--temperature -0.5: expected 0 or more");
  EXPECT_NE(message({.temperature = std::nan("")}).find("--temperature nan"), std::string::npos);
  EXPECT_NE(message({.temperature = kInfinity}).find("--temperature inf"), std::string::npos);
  EXPECT_EQ(message({.top_k = -1}), "--top-k -1: expected 0 (all) or more");
  for (const double p : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_NE(message({.top_p = p}).find("--top-p"), std::string::npos) << p;
  }
}

}  // namespace
}  // namespace ebb::engine
