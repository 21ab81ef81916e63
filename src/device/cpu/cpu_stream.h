// A stream that is a thread, and the events between such threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "device/device.h"

namespace ebb::device {

// Counts records: the issuing thread takes a number when it records, the stream's thread reports it
// reached. A wait is for the number that was current when it was asked for.
class CpuEvent final : public Event {
 public:
  void synchronize() override { wait_for(recorded()); }

  std::uint64_t record() {
    std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  std::uint64_t recorded() {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  void reach(std::uint64_t number);
  void wait_for(std::uint64_t number);

 private:
  std::mutex mutex_;
  std::condition_variable reached_changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t reached_ = 0;
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(std::string name);
  ~CpuStream() override;  // ends what was submitted first

  void submit(std::function<void()> work) override;
  void wait(Event& event) override;
  void record(Event& event) override;
  void synchronize() override;
  void copy(void* to, const void* from, Bytes bytes) override;
  void fill(void* to, std::uint8_t value, Bytes bytes) override;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last, so that it starts when all else is there
};

}  // namespace ebb::device
