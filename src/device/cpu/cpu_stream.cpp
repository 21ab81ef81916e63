#include "device/cpu/cpu_stream.h"

#include <pthread.h>

#include <cstring>

namespace ebb::device {

void CpuEvent::reach(std::uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    reached_ = number;
  }
  reached_changed_.notify_all();
}

void CpuEvent::wait_for(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  reached_changed_.wait(lock, [&] { return reached_ >= number; });
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

void CpuStream::submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void CpuStream::wait(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  submit([&cpu_event, number = cpu_event.recorded()] { cpu_event.wait_for(number); });
}

void CpuStream::record(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  submit([&cpu_event, number = cpu_event.record()] { cpu_event.reach(number); });
}

void CpuStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void CpuStream::copy(void* to, const void* from, Bytes bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void CpuStream::fill(void* to, std::uint8_t value, Bytes bytes) {
  std::memset(to, value, static_cast<std::size_t>(bytes));
}

void CpuStream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      work();
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

}  // namespace ebb::device
