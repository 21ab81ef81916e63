// The next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace ebb::engine {

struct Sampling {
  double temperature = 1.0;  // 0: the likeliest token (the first of equals)
  std::int64_t top_k = 0;    // only the k likeliest; 0: all
  double top_p = 1.0;        // only the likeliest that together have this probability
  std::uint64_t seed = 0;
};

// Throws ConfigError that names the flag.
void validate(const Sampling&);

// `position` numbers the draw: equal seeds, positions and logits give equal tokens.
std::int32_t sample(std::span<const float> logits, const Sampling&, std::int64_t position);

}  // namespace ebb::engine
