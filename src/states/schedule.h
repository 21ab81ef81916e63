// The learning rate of every step: a linear warm-up, then a shape.
#pragma once

#include <cstdint>
#include <string_view>

namespace ebb::states {

struct Schedule {
  // After the warm-up:
  enum class Shape : std::uint8_t {
    constant,  // the peak to the end
    linear,    // a straight line to the final share
    cosine,    // half a cosine to the final share
    wsd,       // the peak, then over the last decay_share of the steps a straight line
  };

  static constexpr double default_final_share(Shape shape) {
    return shape == Shape::cosine ? 0.1 : 0.0;
  }

  Shape shape = Shape::cosine;
  double peak = 3e-4;
  std::int64_t warmup = 0;  // steps: peak / warmup at step 1, the peak at step `warmup`
  std::int64_t steps = 1;   // of the whole run, warm-up included
  // Share of the peak where the decay ends: right behind the last step, so that no step is wasted
  // on a rate of 0. Its default is that of the shape the Schedule was made with; constant ignores
  // it.
  double final_share = default_final_share(shape);
  double decay_share = 0.2;  // wsd: share of `steps` that decay

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// `step` counts from 1; behind the last step the rate stays at the final share. A warm-up as long
// as the run or longer is cut off by the run's end and never decays.
double learning_rate(const Schedule& schedule, std::int64_t step);

// The last step up to which a run has the same learning rates with either, wherever it was to end:
// up to there one of them may become the other. The largest number there is where they never part.
std::int64_t steps_in_common(const Schedule& a, const Schedule& b);

// Throws ConfigError that names the flag, the value and the range.
void validate(const Schedule& schedule);

std::string_view name_of(Schedule::Shape shape);
// Throws ConfigError that lists the names.
Schedule::Shape parse_schedule(std::string_view name);

}  // namespace ebb::states
