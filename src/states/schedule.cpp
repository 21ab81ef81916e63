#include "states/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "ebb/error.h"
#include "states/require.h"

namespace ebb::states {
namespace {

using Shape = Schedule::Shape;

constexpr std::array kShapes = {Shape::constant, Shape::linear, Shape::cosine, Shape::wsd};

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// The last step at the full peak.
std::int64_t decay_start(const Schedule& schedule) {
  if (schedule.shape == Shape::constant) return kNever;
  if (schedule.shape != Shape::wsd) return schedule.warmup;
  const auto decaying = std::llround(schedule.decay_share * static_cast<double>(schedule.steps));
  return std::max<std::int64_t>(schedule.warmup, schedule.steps - decaying);
}

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t step) {
  if (step <= schedule.warmup) {
    return schedule.peak * static_cast<double>(step) / static_cast<double>(schedule.warmup);
  }
  const std::int64_t start = decay_start(schedule);
  if (step <= start) return schedule.peak;
  const std::int64_t span = schedule.steps - start;
  const double progress =
      span <= 0 ? 1.0
                : std::min(1.0, static_cast<double>(step - 1 - start) / static_cast<double>(span));
  const double left = schedule.shape == Shape::cosine
                          ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                          : 1.0 - progress;
  return schedule.peak * (schedule.final_share + (1.0 - schedule.final_share) * left);
}

std::int64_t steps_in_common(const Schedule& a, const Schedule& b) {
  if (a == b) return kNever;
  if (a.peak != b.peak || a.warmup != b.warmup) return 0;
  return std::min(decay_start(a), decay_start(b));
}

void validate(const Schedule& schedule) {
  // The comparisons are false for NaN.
  require(schedule.peak >= 0 && std::isfinite(schedule.peak), "--learning-rate", schedule.peak,
          "a finite number, 0 or more");
  require(schedule.warmup >= 0, "--warmup", schedule.warmup, "0 or more");
  require(schedule.steps >= 0, "--steps", schedule.steps, "0 or more");
  require(schedule.final_share >= 0 && schedule.final_share <= 1, "--final-share",
          schedule.final_share, "0 to 1");
  require(schedule.decay_share >= 0 && schedule.decay_share <= 1, "--decay-share",
          schedule.decay_share, "0 to 1");
}

std::string_view name_of(Shape shape) {
  switch (shape) {
    case Shape::constant: return "constant";
    case Shape::linear: return "linear";
    case Shape::cosine: return "cosine";
    case Shape::wsd: return "wsd";
  }
  return "?";
}

Shape parse_schedule(std::string_view name) {
  std::string names;
  for (const Shape shape : kShapes) {
    if (name == name_of(shape)) return shape;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(shape));
  }
  throw ConfigError(fmt::format("--schedule \"{}\": expected one of {}", name, names));
}

}  // namespace ebb::states
