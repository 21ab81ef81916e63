// The exec room runs work on lanes: queues of the device and threads of the host. On them the
// executor runs programs; the optimizer library, whose gradients come in any order and which thus
// has no program, queues its work itself. The room knows tasks, objects and tiers, and nothing of
// models. It serves `engine` and `hybrid`.
//
// Lanes are the queues themselves, with the first failure of any of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/list.h"
#include "device/device.h"

namespace ebb::exec {

class Lanes {
 public:
  struct Lane {
    device::StreamKind kind = device::StreamKind::compute;
    std::string name;
  };

  Lanes(device::Device& device, const List<Lane>& lanes);

  device::Stream& operator[](std::size_t lane) const { return *streams_[lane]; }

  // Queues work on one of the lanes. It is skipped once work of its time or of an earlier one has
  // failed; what it throws is a failure of its time. Calls for a lane come from one thread at a
  // time.
  template <class Work>
  void submit(device::Stream& lane, std::int64_t time, Work work, device::Interval* ran = nullptr) {
    lane.submit(
        [this, time, work = std::move(work)]() mutable {
          if (failed(time)) return;
          try {
            work();
          } catch (...) {
            fail(std::current_exception(), time);
          }
        },
        ran);
  }

  // Any thread. Work of this time and later is to be skipped; what came before still ends.
  void fail(std::exception_ptr failure, std::int64_t time);
  bool failed(std::int64_t time) const { return time >= failed_; }
  // Throws the first failure of any lane, where there is one.
  void check();
  // From now on all that is queued is skipped.
  void abandon() { failed_ = 0; }
  // Blocks until all lanes are empty; throws the first failure of any of them, which is `time`'s
  // where a lane itself fails.
  void drain(std::int64_t time);

  // Between runs: zeros, behind what the lane has queued, and there on return.
  static void clear_now(device::Stream& lane, void* to, Bytes bytes);

 private:
  std::atomic<std::int64_t> failed_{std::numeric_limits<std::int64_t>::max()};
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first
  // Last: their threads end before what they use.
  List<std::unique_ptr<device::Stream>> streams_;
};

// For tests of ordering: such a share of the work, which two numbers name, is late by up to a
// millisecond. No seed, no pause.
void pause_at_random(device::Stream& lane, std::uint64_t seed, std::uint64_t step,
                     std::uint64_t number, double share);

}  // namespace ebb::exec
