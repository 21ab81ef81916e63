// The choice of the next token.
#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ebb/error.h"
#include "heap_watch.h"

namespace ebb::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::int32_t sample(const std::vector<float>& logits, const Sampling& sampling,
                    std::int64_t position, const std::vector<std::int32_t>& sequence = {}) {
  return Sampler(sampling, logits.size()).sample(logits, sequence, position);
}

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

// The same by its definition: everything sorted, in double. Probabilities of the tokens that are
// left, by id; `edge` says how near the last filter was to another answer.
struct Slow {
  std::map<std::int32_t, double> left;
  double edge = 1;

  Slow(std::vector<float> logits, const Sampling& s, const std::vector<std::int32_t>& sequence) {
    const std::size_t window =
        s.repetition_window == 0
            ? sequence.size()
            : std::min(sequence.size(), static_cast<std::size_t>(s.repetition_window));
    for (const std::int32_t id :
         std::set<std::int32_t>(sequence.end() - static_cast<long>(window), sequence.end())) {
      float& x = logits[static_cast<std::size_t>(id)];
      x = static_cast<float>(x < 0 ? x * s.repetition_penalty : x / s.repetition_penalty);
    }
    std::vector<std::int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto logit = [&](std::int32_t id) {
      return static_cast<double>(logits[static_cast<std::size_t>(id)]);
    };
    std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return logit(a) > logit(b); });
    if (s.top_k > 0 && std::cmp_less(s.top_k, ids.size())) {
      ids.resize(static_cast<std::size_t>(s.top_k));
    }
    const auto weight = [&](std::int32_t id) {
      return std::exp((logit(id) - logit(ids[0])) / s.temperature);
    };
    double total = 0;
    for (const std::int32_t id : ids) total += weight(id);
    double reached = 0;
    for (const std::int32_t id : ids) {
      if (weight(id) >= s.min_p) left[id] = weight(id);
      edge = std::min(edge, std::abs(weight(id) / s.min_p - 1));
      reached += weight(id) / total;
      if (s.top_p < 1) edge = std::min(edge, std::abs(reached - s.top_p));
      if (reached >= s.top_p) break;
    }
    double sum = 0;
    for (const auto& [id, w] : left) sum += w;
    for (auto& [id, w] : left) w /= sum;
  }

  // The token at a place between 0 and 1, with those that rounding may lead to.
  std::set<std::int32_t> at(double place) const {
    std::set<std::int32_t> found;
    double sum = 0;
    for (const auto& [id, p] : left) {
      if (place >= sum - 1e-5 && place <= sum + p + 1e-5) found.insert(id);
      sum += p;
    }
    return found;
  }
};

TEST(Sampling, IsWhatSortingEverythingSays) {
  const std::vector<Sampling> kinds = {
      {},
      {.temperature = 0.3},
      {.temperature = 5},
      {.top_k = 1},
      {.temperature = 0.7, .top_k = 20, .top_p = 0.8},
      {.top_k = 200, .min_p = 0.1},
      {.top_p = 0.5},
      {.temperature = 0.8, .top_p = 0.95},
      {.temperature = 3, .top_p = 0.999},
      {.min_p = 0.05},
      {.temperature = 2, .top_p = 0.9, .min_p = 0.01},
      {.repetition_penalty = 1.3, .temperature = 0.6, .top_k = 40},
      {.repetition_penalty = 0.5, .repetition_window = 7, .top_p = 0.9},
      {.repetition_penalty = 2, .temperature = 1.5, .top_k = 500, .top_p = 0.7, .min_p = 0.02}};
  for (const std::size_t vocabulary : {1u, 2u, 63u, 64u, 65u, 129u, 1009u, 5003u}) {
    for (const double width : {0.01, 1.0, 4.0}) {
      const CounterRng rng(vocabulary, static_cast<std::uint64_t>(width * 100));
      std::vector<float> logits(vocabulary);
      for (std::size_t i = 0; i < vocabulary; ++i) {
        logits[i] = static_cast<float>(rng.normal(i) * width);
        // Ties, also with the largest.
        if (i % 5 == 4) logits[i] = logits[i - 4];
      }
      std::vector<std::int32_t> sequence;
      for (std::uint64_t i = 0; i < 30; ++i) {
        sequence.push_back(static_cast<std::int32_t>(rng.below(1000 + i, vocabulary)));
      }
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        Sampling s = kinds[k];
        s.seed = k;
        const Slow slow(logits, s, sequence);
        if (slow.edge < 1e-5) continue;
        Sampler sampler(s, vocabulary);
        for (std::int64_t i = 0; i < 20; ++i) {
          const double place =
              CounterRng(s.seed, 0x73616d70).uniform(static_cast<std::uint64_t>(i));
          const std::int32_t found = sampler.sample(logits, sequence, i);
          EXPECT_TRUE(slow.at(place).contains(found))
              << "token " << found << " of " << vocabulary << ", logits " << width << " wide, kind "
              << k << ", draw " << i;
        }
      }
    }
  }
}

TEST(Sampling, TheShareOfTheLikeliestKeepsWhatHasIt) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  const auto kept = [&](double min_p) { return draw(logits, {.min_p = min_p}, 3000).size(); };
  EXPECT_EQ(kept(0), 4u);
  EXPECT_EQ(kept(0.24), 4u);
  EXPECT_EQ(kept(0.26), 3u);
  EXPECT_EQ(kept(0.51), 2u);
  EXPECT_EQ(kept(0.76), 1u);
  EXPECT_EQ(kept(1), 1u);
  // The temperature comes first: squared, 0.3 has 9/16 of 0.4.
  EXPECT_EQ(draw(logits, {.temperature = 0.5, .min_p = 0.57}, 3000).size(), 1u);
  EXPECT_EQ(draw(logits, {.temperature = 0.5, .min_p = 0.55}, 3000).size(), 2u);
}

// Divided where positive, multiplied where negative, once a token, also for the likeliest.
TEST(Sampling, ThePenaltyIsForTokensOfTheSequence) {
  const std::vector<float> logits = {3, 2.5f, -1, -1.5f};
  const Sampling greedy{.repetition_penalty = 1.25, .temperature = 0};
  EXPECT_EQ(sample(logits, greedy, 0), 0);
  EXPECT_EQ(sample(logits, greedy, 0, {0}), 1);
  EXPECT_EQ(sample(logits, greedy, 0, {0, 0, 0, 1}), 0) << "2.4 and 2.0";
  EXPECT_EQ(sample({-1, -1.5f, -1.2f}, greedy, 0, {0, 1}), 2);
  EXPECT_EQ(sample({-1, -1.5f, -1.2f}, {.repetition_penalty = 0.5, .temperature = 0}, 0, {1}), 1);
  Sampling window = greedy;
  window.repetition_window = 2;
  EXPECT_EQ(sample(logits, window, 0, {0, 2, 3}), 0);
  EXPECT_EQ(sample(logits, window, 0, {2, 0, 3}), 1);
  EXPECT_EQ(sample({3e38f, 1}, {.repetition_penalty = 1e-9, .temperature = 0}, 0, {0}), 0);
}

TEST(Sampling, LogProbabilitiesAreThoseOfTheModel) {
  const std::vector<double> p = {0.1, 0.4, 0.1, 0.3, 0.1};
  std::vector<float> logits = logits_of(p);
  for (float& x : logits) x += 7;
  Sampler sampler({.repetition_penalty = 3, .temperature = 0.2, .top_k = 1}, p.size());
  std::vector<LogProb> likeliest(4);
  const double sum = sampler.log_probs(logits, likeliest);
  EXPECT_NEAR(static_cast<double>(logits[2]) - sum, std::log(0.1), 1e-5);
  const std::vector<std::int32_t> order = {1, 3, 0, 2};
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(likeliest[i].id, order[i]);
    EXPECT_NEAR(likeliest[i].value, std::log(p[static_cast<std::size_t>(order[i])]), 1e-5);
  }
}

TEST(Sampling, TakesNoMemoryPerToken) {
  if (!HeapWatch::works()) GTEST_SKIP() << "nothing is counted here";
  std::vector<float> logits(50'000);
  const CounterRng rng(3, 4);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(rng.normal(i));
  const std::vector<std::int32_t> sequence = {1, 2, 3};
  for (const Sampling& s :
       {Sampling{}, Sampling{.top_k = 40'000}, Sampling{.top_p = 0.99}, Sampling{.min_p = 0.001},
        Sampling{.repetition_penalty = 1.1, .top_k = 50, .top_p = 0.9}}) {
    const HeapWatch all;
    Sampler sampler(s, logits.size());
    EXPECT_LE(all.held(), Sampler::memory_bytes(50'000) + 4096);
    const HeapWatch watch;
    for (int i = 0; i < 3; ++i) sampler.sample(logits, sequence, i);
    EXPECT_EQ(watch.peak(), 0);
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
  for (const double p : {-0.1, 1.5, std::nan("")}) {
    EXPECT_NE(message({.min_p = p}).find("--min-p"), std::string::npos) << p;
  }
  for (const double p : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_NE(message({.repetition_penalty = p}).find("--repetition-penalty"), std::string::npos)
        << p;
  }
  EXPECT_NE(message({.repetition_window = -1}).find("--repetition-window -1"), std::string::npos);
}

}  // namespace
}  // namespace ebb::engine
