// The exec room runs work on lanes: queues of the device and threads of the host, one for each lane
// of a topology. It knows tasks, objects and tiers, and nothing of models. It serves `engine`.
//
// Lanes are the queues themselves, with the first failure of any of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "plan/topology.h"

namespace ebb::exec {

// What a lane's stream is for: work of the device, copies over a link of the device, or work of the
// CPU, which reads and writes what has no addresses too.
device::StreamKind stream_kind(const plan::LaneInfo&);

class Lanes {
 public:
  Lanes(device::Device& device, const plan::Topology& topology);

  device::Stream& operator[](plan::Lane lane) { return *streams_[lane.index]; }
  std::size_t count() const { return streams_.size(); }
  // How long a lane's tasks have run, of those that have ended.
  double busy_seconds(plan::Lane lane) const { return streams_[lane.index]->busy_seconds(); }

  // Any thread. Work of this time and later is to be skipped; what came before still ends.
  void fail(std::exception_ptr failure, std::int64_t time);
  bool failed(std::int64_t time) const { return time >= failed_; }
  // From now on all that is queued is skipped.
  void abandon() { failed_ = 0; }
  // Blocks until all lanes are empty; throws the first failure of any of them, which is `time`'s
  // where a lane itself fails.
  void drain(std::int64_t time);

  // Between runs: a copy between any addresses, done on return, and zeros.
  void copy_now(void* to, const void* from, Bytes bytes) { side_->copy_now(to, from, bytes); }
  void clear_now(void* to, Bytes bytes);

 private:
  std::atomic<std::int64_t> failed_{std::numeric_limits<std::int64_t>::max()};
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first
  std::unique_ptr<device::Stream> side_;
  // Last: their threads end before what they use.
  std::vector<std::unique_ptr<device::Stream>> streams_;
};

}  // namespace ebb::exec
