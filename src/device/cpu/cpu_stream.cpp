#include "device/cpu/cpu_stream.h"

#include <pthread.h>

#include <chrono>
#include <cstring>

#include "base/to_size.h"

namespace ebb::device {

std::uint64_t CpuEvent::ticket() {
  std::lock_guard lock(mutex_);
  return recorded_;
}

std::uint64_t CpuEvent::record() {
  std::lock_guard lock(mutex_);
  return ++recorded_;
}

void CpuEvent::reach(std::uint64_t number, const std::exception_ptr& failure) {
  // Told under the lock: a waiting thread may destroy the event as soon as it is let go.
  std::lock_guard lock(mutex_);
  reached_ = number;
  if (!failure_) failure_ = failure;
  reached_changed_.notify_all();
}

void CpuEvent::wait_for(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  reached_changed_.wait(lock, [&] { return reached_ >= ticket; });
  if (failure_) std::rethrow_exception(failure_);
}

CpuStream::CpuStream(std::string name)
    : thread_([this, name = "ebb " + name] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        run();
      }) {}

CpuStream::~CpuStream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CpuStream::enqueue(Entry entry) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(entry));
  }
  changed_.notify_all();
}

void CpuStream::submit(std::function<void()> work, Interval* ran) {
  enqueue({std::move(work), true, ran});
}

void CpuStream::wait(Event& event) {
  enqueue({[&event, ticket = event.ticket()] { event.wait_for(ticket); }, false});
}

void CpuStream::record(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  enqueue({[this, &cpu_event, number = cpu_event.record()] { cpu_event.reach(number, failure_); },
           false});
}

void CpuStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
  if (failure_) std::rethrow_exception(failure_);
}

void CpuStream::copy(void* to, const void* from, Bytes bytes) {
  std::memcpy(to, from, to_size(bytes));
}

void CpuStream::fill(void* to, std::uint8_t value, Bytes bytes) {
  std::memset(to, value, to_size(bytes));
}

void CpuStream::pause(std::int64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

void CpuStream::copy_now(void* to, const void* from, Bytes bytes) {
  submit([=, this] { copy(to, from, bytes); });
  synchronize();
}

double CpuStream::busy_seconds() { return static_cast<double>(busy_nanoseconds_.load()) * 1e-9; }

void CpuStream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    {
      const Entry entry = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      run(entry);
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

void CpuStream::run(const Entry& entry) {
  if (!entry.is_work) {
    try {
      entry.run();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  } else if (!failure_) {
    const auto start = std::chrono::steady_clock::now();
    entry.run();
    const auto stop = std::chrono::steady_clock::now();
    busy_nanoseconds_ += std::chrono::nanoseconds(stop - start).count();
    if (entry.ran != nullptr) *entry.ran = {start, stop};
  }
}

void CallingThread::record(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  cpu_event.reach(cpu_event.record(), nullptr);
}

}  // namespace ebb::device
