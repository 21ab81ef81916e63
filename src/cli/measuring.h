// What a person sees while the machine is measured: one line that renews itself on a terminal,
// plain lines in a pipe. It stands beside the result, which scripts read.
#pragma once

#include "ebb/bench.h"

namespace ebb::cli {

class MeasuringProgress {
 public:
  MeasuringProgress();
  ~MeasuringProgress();
  MeasuringProgress(const MeasuringProgress&) = delete;
  MeasuringProgress& operator=(const MeasuringProgress&) = delete;

  void operator()(const BenchProgress& progress) const;

 private:
  bool terminal_;
};

}  // namespace ebb::cli
