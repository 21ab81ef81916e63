#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/rng.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::engine {

void validate(const Sampling& s) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    throw ConfigError(fmt::format("--temperature {}: expected 0 or more", s.temperature));
  }
  if (s.top_k < 0) throw ConfigError(fmt::format("--top-k {}: expected 0 (all) or more", s.top_k));
  if (!(s.top_p > 0 && s.top_p <= 1)) {
    throw ConfigError(
        fmt::format("--top-p {}: expected a probability above 0, at most 1", s.top_p));
  }
}

std::int32_t sample(std::span<const float> logits, const Sampling& s, std::int64_t position) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    throw NumericsError("the model's logits are not finite: its weights are broken");
  }
  const auto best = std::max_element(logits.begin(), logits.end());
  if (s.temperature == 0) return static_cast<std::int32_t>(best - logits.begin());

  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  // Equal logits go by id, so that a draw does not depend on the sort.
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[to_size(a)];
    const float y = logits[to_size(b)];
    return x > y || (x == y && a < b);
  };
  const std::size_t keep = s.top_k > 0 ? std::min(ids.size(), to_size(s.top_k)) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(keep), ids.end(),
                    likelier);
  ids.resize(keep);

  std::vector<double> weights;
  double total = 0;
  for (const std::int32_t id : ids) {
    // Less the largest: no exponential overflows, and the first weight is 1.
    weights.push_back(std::exp((static_cast<double>(logits[to_size(id)]) - *best) / s.temperature));
    total += weights.back();
  }
  // The shortest head of the list that has the wanted probability.
  double reached = 0;
  std::size_t count = 0;
  while (count < weights.size() && reached < s.top_p * total) reached += weights[count++];
  double left =
      CounterRng(s.seed, 0x73616d70).uniform(static_cast<std::uint64_t>(position)) * reached;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  // Rounding may leave a rest behind the last one.
  return ids[count - 1];
}

}  // namespace ebb::engine
