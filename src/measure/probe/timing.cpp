#include "measure/probe/timing.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "base/seconds_since.h"

namespace ebb::measure {
namespace {

using Clock = std::chrono::steady_clock;

// From the first call to the end of the last run on the stream; starts with an empty stream.
double seconds_of(device::Stream& stream, int runs, const std::function<void()>& work) {
  const auto start = Clock::now();
  for (int i = 0; i < runs; ++i) stream.submit(work);
  stream.synchronize();
  return seconds_since(start);
}

// So many runs that starting and waiting are lost in the pass.
int runs_of_a_pass(device::Stream& stream, const PassLength& length,
                   const std::function<void()>& work) {
  seconds_of(stream, 1, work);  // plans, first touches
  // A work that takes no time at all must end, too.
  constexpr int most = 2000;
  const double one = seconds_of(stream, 1, work);
  return static_cast<int>(std::clamp(std::ceil(length.pass / one), 1.0, double{most}));
}

}  // namespace

double fastest_run(device::Stream& stream, const PassLength& length,
                   const std::function<void()>& work) {
  const auto start = Clock::now();
  const int runs = runs_of_a_pass(stream, length, work);
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 3 || seconds_since(start) < length.all; ++pass) {
    best = std::min(best, seconds_of(stream, runs, work) / runs);
  }
  return best;
}

double settled_run(device::Stream& stream, const PassLength& length, double settling,
                   const std::function<void()>& work) {
  const int runs = runs_of_a_pass(stream, length, work);
  for (const auto start = Clock::now(); seconds_since(start) < settling;)
    seconds_of(stream, runs, work);
  std::vector<double> passes;
  for (const auto start = Clock::now(); passes.size() < 3 || seconds_since(start) < length.all;) {
    passes.push_back(seconds_of(stream, runs, work) / runs);
  }
  // The median: clocks that rise and fall are part of a long run, a single slow pass is not.
  const auto middle = passes.begin() + static_cast<std::ptrdiff_t>(passes.size() / 2);
  std::nth_element(passes.begin(), middle, passes.end());
  return *middle;
}

double fastest_hop(device::Stream& compute, device::Stream& copy, const PassLength& length,
                   device::Device& device) {
  const auto computed = device.create_event(device::StreamKind::compute);
  const auto copied = device.create_event(device::StreamKind::copy);
  constexpr int rounds = 20;  // a pass is short, and so rarely disturbed
  const auto pass = [&] {
    const auto start = Clock::now();
    for (int i = 0; i < rounds; ++i) {
      compute.submit([] {});
      compute.record(*computed);
      copy.wait(*computed);
      copy.submit([] {});
      copy.record(*copied);
      compute.wait(*copied);
    }
    compute.synchronize();
    return seconds_since(start) / (2 * rounds);
  };
  const auto start = Clock::now();
  double best = pass();
  for (int i = 0; i < 3 || seconds_since(start) < length.all; ++i) best = std::min(best, pass());
  return best;
}

std::vector<double> rates_together(const std::vector<Loop>& loops, double seconds) {
  std::vector<double> rates(loops.size());
  std::vector<std::exception_ptr> failures(loops.size());
  std::vector<std::thread> threads;
  std::atomic<bool> stop = false;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    threads.emplace_back([&, i] {
      const Loop& loop = loops[i];
      const auto start = Clock::now();
      int runs = 0;
      try {
        // One at a time and waited for, so that no queue holds work past the end.
        for (; runs < 2 || !stop; ++runs) seconds_of(loop.stream, 1, loop.work);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      rates[i] = loop.amount * runs / seconds_since(start);
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return rates;
}

}  // namespace ebb::measure
