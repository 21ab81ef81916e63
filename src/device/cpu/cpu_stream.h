// A stream that is a thread, and the events between such threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "device/device.h"

namespace ebb::device {

// Counts records: the issuing thread takes a number when it records, the stream's thread reports it
// reached. A wait is for the number that was current when it was asked for.
class CpuEvent : public Event {
 public:
  std::uint64_t ticket() override;
  void wait_for(std::uint64_t ticket) override;

  std::uint64_t record();
  // On the recording stream's thread, with its failure if it has one.
  virtual void reach(std::uint64_t number, const std::exception_ptr& failure);

 private:
  std::mutex mutex_;
  std::condition_variable reached_changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t reached_ = 0;
  std::exception_ptr failure_;
};

// Waits for events of any kind, records CpuEvents. It fails when a wait throws: then it skips work,
// passes the failure on with its events, and still records them so that nobody hangs.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(std::string name);
  ~CpuStream() override;  // ends what was submitted first

  using Stream::submit;
  void submit(std::function<void()> work, Interval* ran) override;
  void wait(Event& event) override;
  void record(Event& event) override;
  void synchronize() override;
  void copy(void* to, const void* from, Bytes bytes) override;
  void fill(void* to, std::uint8_t value, Bytes bytes) override;
  void pause(std::int64_t microseconds) override;
  void copy_now(void* to, const void* from, Bytes bytes) override;
  double busy_seconds() override;

 private:
  struct Entry {
    std::function<void()> run;
    bool is_work = true;  // or a wait or a record
    Interval* ran = nullptr;
  };
  void enqueue(Entry entry);
  void run();
  void run(const Entry& entry);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;  // the first; written by the thread alone
  std::atomic<std::int64_t> busy_nanoseconds_{0};
  std::thread thread_;  // last, so that it starts when all else is there
};

// The thread that calls, as a stream: all it did is past.
class CallingThread final : public ForeignStream {
 public:
  void record(Event& event) override;
  void wait(Event& event) override { event.synchronize(); }
};

}  // namespace ebb::device
