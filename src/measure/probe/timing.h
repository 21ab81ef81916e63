// How long work on a stream takes, and what streams do to each other.
#pragma once

#include <functional>
#include <vector>

#include "base/function_ref.h"
#include "device/device.h"

namespace ebb::measure {

struct PassLength {
  double all = 0;   // seconds to spend; three passes at least
  double pass = 0;  // seconds of one pass: work is repeated within it, behind one another
};

// Seconds of one run of `work` on the stream, in the fastest pass: what else the machine does makes
// passes slower, never faster. Queues that are fed ahead stay full within a pass.
double fastest_run(device::Stream& stream, const PassLength& length,
                   const std::function<void()>& work);

// The same of work that goes on: after `settling` seconds of it, in the middle one of the passes. A
// GPU at rest is cool and has power to spare, and runs products a tenth faster for half a second
// than it ever does in training.
double settled_run(device::Stream& stream, const PassLength& length, double settling,
                   const std::function<void()>& work);

// Seconds from the end of a task to the start of one on the other stream that waited for it: what
// starting a task costs where lanes hand work to each other.
double fastest_hop(device::Stream& compute, device::Stream& copy, const PassLength& length,
                   device::Device& device);

struct Loop {
  device::Stream& stream;
  std::function<void()> work;
  double amount = 0;  // of one run: bytes
};

// All of them over and over at the same time, for so long; the amount a second of each.
std::vector<double> rates_together(const std::vector<Loop>& loops, double seconds);

}  // namespace ebb::measure
