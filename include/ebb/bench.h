// How fast this machine does what training is made of, beside what it could do at most.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ebb {

struct OptimizerBenchOptions {
  std::vector<std::string> rules;    // empty: all of them
  std::vector<std::string> formats;  // empty: all that a rule has
  std::vector<int> threads;          // 0 is all that may be used; empty: 1 and all
  std::int64_t parameters = 0;       // 0: far more than caches hold
  double seconds = 2;                // spent on each row of the result, or more
};

struct BenchProgress {
  std::string now;          // what is being measured
  double done = 0;          // the share of the work that is behind, 0 to 1
  double seconds_left = 0;  // a prediction from what is behind
};

struct BenchResult {
  std::string text;  // for people
  std::string json;  // for programs: one object
};

// The optimizer's updates on the CPU: every rule and format. Their ceiling is the fastest of
// several streaming passes over the same planes with as many threads, measured in turns with them.
// Throws ConfigError for what is not to be had, OutOfBudget where memory does not suffice.
// `progress` is called now and then, on the calling thread.
BenchResult bench_optimizer(const OptimizerBenchOptions& options,
                            const std::function<void(const BenchProgress&)>& progress);

}  // namespace ebb
