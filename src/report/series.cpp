#include "report/series.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/json.h"

namespace ebb::report {
namespace {

Series::Part joined(const Series::Part& a, const Series::Part& b) {
  return {.step = b.step,
          .seconds = b.seconds,
          .least = std::min(a.least, b.least),
          .most = std::max(a.most, b.most),
          .sum = a.sum + b.sum,
          .count = a.count + b.count};
}

double rounded(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

}  // namespace

void Series::add(std::int64_t step, double seconds, double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  least_ = points_ == 0 ? value : std::min(least_, value);
  last_ = value;
  ++points_;
  const Part point{step, seconds, value, value, value, 1};
  if (!parts_.empty() && parts_.back().count < points_a_part_) {
    parts_.back() = joined(parts_.back(), point);
    return;
  }
  if (parts_.size() == kMostParts) {
    for (std::size_t i = 0; i < kMostParts / 2; ++i) {
      parts_[i] = joined(parts_[2 * i], parts_[2 * i + 1]);
    }
    parts_.resize(kMostParts / 2);
    points_a_part_ *= 2;
  }
  parts_.push_back(point);
}

Json to_json(const Series& series) {
  Json steps = Json::array(), seconds = Json::array(), mean = Json::array();
  Json least = Json::array(), most = Json::array();
  bool single = true;
  for (const Series::Part& part : series.parts()) {
    steps.push_back(part.step);
    seconds.push_back(rounded(part.seconds));
    mean.push_back(rounded(part.mean()));
    least.push_back(rounded(part.least));
    most.push_back(rounded(part.most));
    single = single && part.count == 1;
  }
  Json json = {{"step", steps}, {"seconds", seconds}, {"mean", mean}};
  if (!single) {
    json["least"] = least;
    json["most"] = most;
  }
  return json;
}

}  // namespace ebb::report
