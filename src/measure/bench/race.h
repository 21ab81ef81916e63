// A kernel that walks planes of memory, measured in turns with the streaming passes that are its
// ceiling. What else the machine does slows both of them down, so a share of the ceiling compares
// passes that ran one right after the other; medians leave out what hit one of them alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "measure/bench/streaming.h"

namespace ebb::measure {

class Race {
 public:
  // `pass` does the kernel's work on all planes once.
  Race(std::function<void()> pass, std::vector<StreamedPlane> planes);

  // The variants that came out best when all were tried, on memory of this shape: the ceiling is
  // one of them. Before the first round.
  std::vector<StreamVariant> find_rivals(ThreadPool& pool, double seconds) const;
  void set_rivals(std::vector<StreamVariant> rivals);

  // The kernel once beside each of its rivals.
  void round(ThreadPool& pool);

  const std::vector<StreamedPlane>& planes() const { return planes_; }
  // Bytes that a pass reads and writes.
  double bytes_moved() const;
  std::size_t passes() const { return seconds_.size(); }

  // All of these after the first round.
  double seconds() const;           // of the kernel's pass
  double share_of_ceiling() const;  // the fastest rival's time by the kernel's; 1 is the ceiling
  std::string ceiling() const;      // that rival's name

 private:
  struct Rival {
    StreamVariant variant;
    std::vector<double> shares;  // its seconds by the kernel's, of neighbours
  };
  const Rival& fastest() const;

  std::function<void()> pass_;
  std::vector<StreamedPlane> planes_;
  std::vector<Rival> rivals_;
  std::vector<double> seconds_;
};

}  // namespace ebb::measure
