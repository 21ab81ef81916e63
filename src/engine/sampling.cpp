#include "engine/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/rng.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::engine {
namespace {

// Tokens of a block: enough that most of a vocabulary is passed over by looking at maxima, few
// enough that the blocks with the likeliest tokens hold little else.
constexpr std::size_t kBlock = 64;
// Sums of a block are made in so many parts, whatever the machine: it is the same sum everywhere.
constexpr std::size_t kLanes = 8;
// Tokens that are looked at first for a head with a probability.
constexpr std::size_t kFew = 512;
constexpr std::size_t kBins = 4096;
// Beyond this a weight is no normal number any more and counts as zero.
constexpr float kLeastExponent = -87;

constexpr std::size_t blocks_of(std::size_t vocabulary) {
  return (vocabulary + kBlock - 1) / kBlock;
}

// e^x for x from kLeastExponent to 0. Made of additions and products alone: no machine's library
// decides a bit of it.
constexpr float bounded_exp(float x) {
  // Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits.
  constexpr float shift = 0x1.8p23f;
  const float shifted = x * 1.44269504f + shift;
  const float n = shifted - shift;
  // ln 2 in two parts: the first has so few bits that its product with n is exact.
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  // 1 + r + r^2/2! + ... + r^7/7!; |r| is ln 2 / 2 at most.
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const std::int32_t power =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(shift) + 127;
  return sum * std::bit_cast<float>(power << 23);
}

// Taken off all weights, so that those of kLeastExponent and below are 0. Changes no weight that is
// not nearly as small.
constexpr float kLeastWeight = bounded_exp(kLeastExponent);

float weight_of(float exponent) {
  return bounded_exp(std::max(exponent, kLeastExponent)) - kLeastWeight;
}

// By how much differences of logits are multiplied. Bounded, so that 0 stays 0 and what is infinite
// stays it.
float scale_of(double temperature) {
  constexpr double most = std::numeric_limits<float>::max();
  constexpr double least = std::numeric_limits<float>::min();
  return static_cast<float>(std::clamp(1 / temperature, least, most));
}

struct Likelier {
  const float* logits;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const float x = logits[a];
    const float y = logits[b];
    return x > y || (x == y && a < b);
  }
};

}  // namespace

void validate(const Sampling& s) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    throw ConfigError(fmt::format("--temperature {}: expected 0 or more", s.temperature));
  }
  if (s.top_k < 0) throw ConfigError(fmt::format("--top-k {}: expected 0 (all) or more", s.top_k));
  if (!(s.top_p > 0 && s.top_p <= 1)) {
    throw ConfigError(
        fmt::format("--top-p {}: expected a probability above 0, at most 1", s.top_p));
  }
  if (!(s.min_p >= 0 && s.min_p <= 1)) {
    throw ConfigError(
        fmt::format("--min-p {}: expected a share of the likeliest token's probability, 0 (all) "
                    "to 1",
                    s.min_p));
  }
  if (!(s.repetition_penalty > 0) || !std::isfinite(s.repetition_penalty)) {
    throw ConfigError(fmt::format("--repetition-penalty {}: expected a number above 0 (1: none)",
                                  s.repetition_penalty));
  }
  if (s.repetition_window < 0) {
    throw ConfigError(
        fmt::format("--repetition-window {}: expected 0 (the whole sequence) or a number of tokens",
                    s.repetition_window));
  }
}

Sampler::Sampler(const Sampling& sampling, std::size_t vocabulary)
    : sampling_(sampling),
      maxima_(blocks_of(vocabulary)),
      sums_(blocks_of(vocabulary)),
      ordered_maxima_(blocks_of(vocabulary)),
      weights_(vocabulary),
      bins_(kBins) {
  if (sampling_.repetition_penalty != 1) penalized_.resize(vocabulary);
  candidates_.reserve(vocabulary);
}

Bytes Sampler::memory_bytes(std::int64_t vocabulary) {
  const auto blocks = static_cast<Bytes>(blocks_of(to_size(vocabulary)));
  return vocabulary * 12 + blocks * 12 + static_cast<Bytes>(kBins * sizeof(double));
}

std::span<const float> Sampler::penalized(std::span<const float> logits,
                                          std::span<const std::int32_t> sequence) {
  if (penalized_.empty()) return logits;
  std::copy(logits.begin(), logits.end(), penalized_.begin());
  const std::size_t window = sampling_.repetition_window > 0
                                 ? std::min(sequence.size(), to_size(sampling_.repetition_window))
                                 : sequence.size();
  constexpr double most = std::numeric_limits<float>::max();
  for (const std::int32_t id : sequence.last(window)) {
    // Made of the logit as it came, so that a token that is there twice counts once.
    const double logit = static_cast<double>(logits[to_size(id)]);
    const double changed =
        logit < 0 ? logit * sampling_.repetition_penalty : logit / sampling_.repetition_penalty;
    // What is not finite stays so: find_maxima() refuses it.
    penalized_[to_size(id)] =
        static_cast<float>(std::isfinite(logit) ? std::clamp(changed, -most, most) : logit);
  }
  return penalized_;
}

// The largest logit of all and of each block, and the smallest.
void Sampler::find_maxima(std::span<const float> logits) {
  constexpr std::uint32_t exponent = 0x7f800000;
  bool finite = true;
  smallest_ = logits.front();
  for (std::size_t block = 0; block < maxima_.size(); ++block) {
    const float* x = logits.data() + block * kBlock;
    const std::size_t count = std::min(kBlock, logits.size() - block * kBlock);
    std::array<float, kLanes> most;
    std::array<float, kLanes> least;
    std::array<std::uint32_t, kLanes> odd{};
    most.fill(x[0]);
    least.fill(x[0]);
    const auto take = [&](std::size_t lane, float value) {
      most[lane] = value > most[lane] ? value : most[lane];
      least[lane] = value < least[lane] ? value : least[lane];
      // Neither infinite nor NaN: the exponent is not all ones.
      odd[lane] |= (std::bit_cast<std::uint32_t>(value) & exponent) == exponent ? 1u : 0u;
    };
    if (count == kBlock) {
      for (std::size_t i = 0; i < kBlock; i += kLanes)
        for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, x[i + lane]);
    } else {
      for (std::size_t i = 0; i < count; ++i) take(i % kLanes, x[i]);
    }
    maxima_[block] = *std::max_element(most.begin(), most.end());
    smallest_ = std::min(smallest_, *std::min_element(least.begin(), least.end()));
    finite = finite && std::all_of(odd.begin(), odd.end(), [](std::uint32_t o) { return o == 0; });
  }
  if (!finite) throw NumericsError("the model's logits are not finite: its weights are broken");
  largest_ = *std::max_element(maxima_.begin(), maxima_.end());
}

// Fills weights_ and sums_; returns the sum of all. Less the largest, so that no exponential
// overflows and the largest weight is 1.
double Sampler::weigh(std::span<const float> logits, float scale) {
  double total = 0;
  const float largest = largest_;
  for (std::size_t block = 0; block < sums_.size(); ++block) {
    const float* x = logits.data() + block * kBlock;
    float* w = weights_.data() + block * kBlock;
    const std::size_t count = std::min(kBlock, logits.size() - block * kBlock);
    // In an array that nothing else points to, and always whole, so that the compiler makes vectors
    // of the loop. What the last block lacks weighs nothing.
    std::array<float, kBlock> part;
    part.fill(-std::numeric_limits<float>::infinity());
    std::copy_n(x, count, part.begin());
    for (float& exponent : part) exponent = (exponent - largest) * scale;
    // A loop of its own: together with the next one it becomes a branch, and no vectors.
    for (float& exponent : part) exponent = std::max(exponent, kLeastExponent);
    for (float& weight : part) weight = bounded_exp(weight) - kLeastWeight;
    std::copy_n(part.begin(), count, w);
    std::array<float, kLanes> sums{};
    for (std::size_t i = 0; i < kBlock; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += part[i + lane];
    sums_[block] = std::accumulate(sums.begin(), sums.end(), 0.0f);
    total += static_cast<double>(sums_[block]);
  }
  return total;
}

std::int32_t Sampler::first_likeliest(std::span<const float> logits) const {
  const auto block = std::find(maxima_.begin(), maxima_.end(), largest_) - maxima_.begin();
  const auto from = logits.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
  return static_cast<std::int32_t>(std::find(from, logits.end(), largest_) - logits.begin());
}

// Fills candidates_ with the `count` likeliest tokens, in no order.
void Sampler::select(std::span<const float> logits, std::size_t count) {
  candidates_.clear();
  if (count == 0) return;
  // Of `count` blocks each has a logit as large as the smallest of their maxima: that many tokens
  // are not below it, and only those blocks can have any that are.
  float bound = smallest_;
  if (count <= maxima_.size()) {
    std::copy(maxima_.begin(), maxima_.end(), ordered_maxima_.begin());
    const auto nth = ordered_maxima_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(ordered_maxima_.begin(), nth, ordered_maxima_.end(), std::greater<>());
    bound = *nth;
  }
  collect(logits, {bound, std::numeric_limits<std::int32_t>::max()});
  if (count >= candidates_.size()) return;
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(candidates_.begin(), end, candidates_.end(), Likelier{logits.data()});
  candidates_.erase(end, candidates_.end());
}

// Fills candidates_ with the tokens of a head, by id.
void Sampler::collect(std::span<const float> logits, const Head& head) {
  candidates_.clear();
  for (std::size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < head.logit) continue;
    const std::size_t end = std::min((block + 1) * kBlock, logits.size());
    for (std::size_t id = block * kBlock; id < end; ++id) {
      if (head.has(logits[id], id)) candidates_.push_back(static_cast<std::int32_t>(id));
    }
  }
}

void Sampler::sort_candidates(std::span<const float> logits) {
  std::sort(candidates_.begin(), candidates_.end(), Likelier{logits.data()});
}

// Fills weights_ of candidates_ alone; returns their sum.
double Sampler::weigh_candidates(std::span<const float> logits, float scale) {
  double total = 0;
  for (const std::int32_t id : candidates_) {
    weights_[to_size(id)] = weight_of((logits[to_size(id)] - largest_) * scale);
    total += static_cast<double>(weights_[to_size(id)]);
  }
  return total;
}

// The shortest head with a weight, where candidates_, whose weights are known, have so much.
// `reached` is the weight of all tokens before them.
std::optional<Sampler::Head> Sampler::try_head(std::span<const float> logits, double reached,
                                               double wanted) {
  // Thousands of equals are in order as they came.
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), Likelier{logits.data()})) {
    sort_candidates(logits);
  }
  for (const std::int32_t id : candidates_) {
    reached += static_cast<double>(weights_[to_size(id)]);
    if (reached >= wanted) return Head{logits[to_size(id)], id};
  }
  return std::nullopt;
}

Sampler::Head Sampler::head_of_candidates(std::span<const float> logits, double share,
                                          float scale) {
  if (share < 1) {
    const double total = weigh_candidates(logits, scale);
    if (const auto head = try_head(logits, 0, share * total)) return *head;
  }
  const std::int32_t last =
      *std::max_element(candidates_.begin(), candidates_.end(), Likelier{logits.data()});
  return {logits[to_size(last)], last};
}

// The shortest head of all tokens with a weight; weigh() was called.
Sampler::Head Sampler::head_with_weight(std::span<const float> logits, double wanted,
                                        double scale) {
  // Nearly always a few tokens have it.
  select(logits, std::min(kFew, logits.size()));
  if (const auto head = try_head(logits, 0, wanted)) return *head;
  // Bins of equal width in logits take the place of a sort: only the one in which the weight is
  // reached is sorted. No wider than weights reach, so that a logit far below all others does not
  // push these into one bin.
  const float range = std::min(largest_ - smallest_, static_cast<float>(-kLeastExponent / scale));
  const float per_bin = range > 0 ? static_cast<float>(kBins - 1) / range : 0;
  const float largest = largest_;
  const auto bin_of = [=](float x) {
    const float bin = (largest - x) * per_bin;
    constexpr auto last = static_cast<float>(kBins - 1);
    return static_cast<std::int32_t>(bin < last ? bin : last);
  };
  std::fill(bins_.begin(), bins_.end(), 0.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    bins_[to_size(bin_of(logits[i]))] += static_cast<double>(weights_[i]);
  }
  double reached = 0;
  std::int32_t bin = 0;
  const auto last_bin = static_cast<std::int32_t>(kBins) - 1;
  while (bin < last_bin && reached + bins_[to_size(bin)] < wanted) reached += bins_[to_size(bin++)];
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (bin_of(logits[i]) == bin) candidates_.push_back(static_cast<std::int32_t>(i));
  }
  if (const auto head = try_head(logits, reached, wanted)) return *head;
  // Rounding may promise in the sums what the weights do not hold: then all tokens are needed.
  return {smallest_, std::numeric_limits<std::int32_t>::max()};
}

std::int32_t Sampler::draw_from_all(std::span<const float> logits, double uniform, double total) {
  double left = uniform * total;
  for (std::size_t block = 0; block < sums_.size(); ++block) {
    const double sum = static_cast<double>(sums_[block]);
    // Behind the last block with a weight there is nothing to draw.
    if (left >= sum) {
      left -= sum;
      continue;
    }
    const std::size_t end = std::min((block + 1) * kBlock, logits.size());
    std::size_t last = block * kBlock;
    for (std::size_t id = last; id < end; ++id) {
      if (weights_[id] == 0) continue;
      last = id;
      left -= static_cast<double>(weights_[id]);
      if (left < 0) break;
    }
    // Rounding may leave a rest behind the last one.
    return static_cast<std::int32_t>(last);
  }
  return first_likeliest(logits);
}

std::int32_t Sampler::draw_from(std::span<const float> logits, const Head& head, double uniform,
                                float scale) {
  collect(logits, head);
  const auto least = static_cast<float>(sampling_.min_p);
  weigh_candidates(logits, scale);
  double total = 0;
  for (const std::int32_t id : candidates_) {
    float& weight = weights_[to_size(id)];
    if (weight < least) weight = 0;
    total += static_cast<double>(weight);
  }
  double left = uniform * total;
  // The likeliest token is a candidate, and its weight is 1: it stays where all others are zero.
  std::int32_t drawn = candidates_.front();
  for (const std::int32_t id : candidates_) {
    const float weight = weights_[to_size(id)];
    if (weight == 0) continue;
    drawn = id;
    left -= static_cast<double>(weight);
    if (left < 0) break;
  }
  return drawn;
}

std::int32_t Sampler::sample(std::span<const float> from, std::span<const std::int32_t> sequence,
                             std::int64_t position) {
  const std::span<const float> logits = penalized(from, sequence);
  find_maxima(logits);
  if (sampling_.temperature == 0) return first_likeliest(logits);
  const float scale = scale_of(sampling_.temperature);
  const double uniform =
      CounterRng(sampling_.seed, 0x73616d70).uniform(static_cast<std::uint64_t>(position));
  constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();
  if (sampling_.top_k > 0 && std::cmp_less(sampling_.top_k, logits.size())) {
    select(logits, to_size(sampling_.top_k));
    return draw_from(logits, head_of_candidates(logits, sampling_.top_p, scale), uniform, scale);
  }
  if (sampling_.top_p < 1) {
    const double total = weigh(logits, scale);
    const Head head = head_with_weight(logits, sampling_.top_p * total, double{scale});
    return draw_from(logits, head, uniform, scale);
  }
  if (sampling_.min_p > 0) {
    // A little lower than the bound, as it is rounded: draw_from() looks at the weights themselves.
    const double bound = std::log(sampling_.min_p) * 1.001 / double{scale};
    const double logit = static_cast<double>(largest_) + bound - 1e-3 / double{scale};
    return draw_from(logits, {std::max(static_cast<float>(logit), smallest_), any}, uniform, scale);
  }
  return draw_from_all(logits, uniform, weigh(logits, scale));
}

double Sampler::log_probs(std::span<const float> logits, std::span<LogProb> likeliest) {
  find_maxima(logits);
  const double sum = static_cast<double>(largest_) + std::log(weigh(logits, 1));
  select(logits, likeliest.size());
  sort_candidates(logits);
  for (std::size_t i = 0; i < std::min(likeliest.size(), candidates_.size()); ++i) {
    const std::int32_t id = candidates_[i];
    likeliest[i] = {id, static_cast<double>(logits[to_size(id)]) - sum};
  }
  return sum;
}

}  // namespace ebb::engine
