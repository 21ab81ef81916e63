// A curve of any length in little memory. Neighbouring points become one part when there are too
// many, so every part stands for as many points; what is the least, the most and the mean of each
// stays exact, so no spike is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/json_fwd.h"

namespace ebb::report {

class Series {
 public:
  // Parts at most, an even number. A curve of at most so many points is kept as it is.
  static constexpr std::size_t kMostParts = 600;

  struct Part {
    std::int64_t step = 0;  // of its last point
    double seconds = 0;     // likewise, since the run's start
    double least = 0;
    double most = 0;
    double sum = 0;
    std::int64_t count = 0;

    double mean() const { return sum / static_cast<double>(count); }
  };

  // What is not finite has no place in a picture, and is only counted.
  void add(std::int64_t step, double seconds, double value);

  const std::vector<Part>& parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  std::int64_t points() const { return points_; }
  std::int64_t not_finite() const { return not_finite_; }
  double last() const { return last_; }    // 0 before the first
  double least() const { return least_; }  // likewise

 private:
  std::vector<Part> parts_;
  std::int64_t points_a_part_ = 1;
  std::int64_t points_ = 0;
  std::int64_t not_finite_ = 0;
  double last_ = 0;
  double least_ = 0;
};

// {step, seconds, mean, least, most}: a list each. Without least and most where every part is one
// point. Values have six digits, which is more than a screen has.
Json to_json(const Series& series);

}  // namespace ebb::report
