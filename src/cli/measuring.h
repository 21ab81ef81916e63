// What a person sees on stderr while the machine is measured: one line that renews itself on a
// terminal, plain lines in a pipe. It stands beside the result on stdout, which scripts read.
#pragma once

#include "ebb/bench.h"

namespace ebb::cli {

// To be destroyed before the result is printed: the end clears the line.
class MeasuringProgress {
 public:
  MeasuringProgress();
  ~MeasuringProgress();
  MeasuringProgress(const MeasuringProgress&) = delete;
  MeasuringProgress& operator=(const MeasuringProgress&) = delete;

  // On the thread that measures. A result's line stays, others are written over.
  void operator()(const BenchProgress& progress) const;

 private:
  bool terminal_;
};

}  // namespace ebb::cli
