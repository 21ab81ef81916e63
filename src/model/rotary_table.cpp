// The angles of rotary positions.
#include <cmath>
#include <numbers>

#include "model/decoder.h"

namespace ebb::model {
namespace {

// The angle a position adds, after scaling.
double scaled(double frequency, const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::none: return frequency;
    case RopeScaling::Kind::linear: return frequency / scaling.factor;
    case RopeScaling::Kind::llama3: break;
  }
  // How often the wave fits into the positions known before.
  const double waves = static_cast<double>(scaling.original) * frequency / (2 * std::numbers::pi);
  if (waves < scaling.low) return frequency / scaling.factor;
  if (waves > scaling.high) return frequency;
  const double share = (waves - scaling.low) / (scaling.high - scaling.low);
  return (1 - share) * frequency / scaling.factor + share * frequency;
}

}  // namespace

Bytes Decoder::table_bytes(std::int64_t positions) const {
  return config_.positions == Config::Positions::rotary ? positions * config_.head_dim * 4 : 0;
}

void Decoder::fill_table(float* table, std::int64_t first, std::int64_t count) const {
  if (config_.positions != Config::Positions::rotary) return;
  const std::int64_t half = config_.head_dim / 2;
  for (std::int64_t j = 0; j < half; ++j) {
    const double exponent = 2.0 * static_cast<double>(j) / static_cast<double>(config_.head_dim);
    const double frequency = scaled(std::pow(config_.rope_theta, -exponent), config_.rope_scaling);
    for (std::int64_t p = 0; p < count; ++p) {
      const double angle = static_cast<double>(first + p) * frequency;
      table[(p * half + j) * 2] = static_cast<float>(std::cos(angle));
      table[(p * half + j) * 2 + 1] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace ebb::model
