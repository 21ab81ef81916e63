#pragma once

#include <chrono>

namespace ebb {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Between two reports of progress: often enough for a person, too rarely to cost anything beside
// the work.
inline constexpr double kSecondsBetweenReports = 0.5;

}  // namespace ebb
