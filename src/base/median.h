// The middle of measurements: what hit few of them does not move it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ebb {

// The upper of the two middle ones where their number is even; 0 where there are none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace ebb
