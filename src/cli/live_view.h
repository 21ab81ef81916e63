// A run as a few lines of a terminal: the loss as blocks, speed, and what is used of each tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/train.h"

namespace ebb::cli {

// Means of neighbouring values, so many at most: a curve of any length.
class Means {
 public:
  void add(double value);
  // As many as there are columns, or fewer.
  std::vector<double> columns(std::size_t count) const;

 private:
  static constexpr std::size_t kMost = 1024;
  struct Sum {
    double sum = 0;
    std::int64_t count = 0;
  };
  std::vector<Sum> sums_;
  std::int64_t values_each_ = 1;
};

class LiveView {
 public:
  void add(const StepReport& report);
  bool empty() const { return report_.step == 0; }
  // Lines of at most so many cells each, without their ends; always as many of them for one run.
  std::vector<std::string> lines(int columns) const;

 private:
  StepReport report_;
  Means losses_;
  double first_loss_ = 0;
};

}  // namespace ebb::cli
