// Notices a rank that has died, hangs as a whole or cannot be reached, also while this one
// computes: ranks send each other a sign of life now and then, on a thread and a communicator of
// their own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "dist/communicator.h"

namespace ebb::dist {

class Watchdog {
 public:
  // All ranks make one, with a communicator that was split off for it. Where a rank gives no sign
  // for so long, the whole group is told that it has failed (Communicator::fail).
  Watchdog(std::unique_ptr<Communicator> ranks, Communicator::Seconds timeout);
  // Waits until all ranks have come to this, or the group has failed.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();

  std::unique_ptr<Communicator> ranks_;
  Communicator::Seconds pause_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  std::thread thread_;  // last
};

}  // namespace ebb::dist
