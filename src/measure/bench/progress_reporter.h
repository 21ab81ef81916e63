// Tells people how far a bench is, once a second.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/seconds_since.h"
#include "ebb/bench.h"

namespace ebb::measure {

// For one thread. Time left is by the parts that are done, so parts should take like times.
class ProgressReporter {
 public:
  // `parts`: how much there is to do, in any unit. Keeps a reference to `progress`.
  ProgressReporter(double parts, const std::function<void(const BenchProgress&)>& progress)
      : parts_(parts), progress_(progress) {}

  void finished(double parts) { behind_ += parts; }
  // `parts`: done beside what is finished.
  void tell(const std::string& now, double parts = 0) {
    const double done = (behind_ + parts) / parts_;
    const double spent = seconds_since(start_);
    // What is told may be short: once a second is enough, and the end.
    if (done < 1 && spent < next_) return;
    next_ = spent + 1;
    progress_({.now = now, .done = done, .seconds_left = done > 0 ? spent / done - spent : 0});
  }

  // Something measured, said at once: people who stop the rest still have that.
  void tell_result(const std::string& found) {
    const double done = behind_ / parts_;
    const double spent = seconds_since(start_);
    progress_({.now = found,
               .result = true,
               .done = done,
               .seconds_left = done > 0 ? spent / done - spent : 0});
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double parts_;
  double behind_ = 0;
  double next_ = 0;  // when to tell again, in seconds from the start
  const std::function<void(const BenchProgress&)>& progress_;
};

}  // namespace ebb::measure
