// Ctrl-C (SIGINT) as a stop token: ends a text and leaves everything as it should be.
#pragma once

#include <stop_token>
#include <thread>

namespace ebb::cli {

// One at a time. Reading from a terminal is broken off by the signal, too (EINTR).
class StopOnInterrupt {
 public:
  enum class Second { ends_process, is_like_the_first };

  explicit StopOnInterrupt(Second second);
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  // A token that is stopped by an interrupt from now on, and only until the next call.
  std::stop_token begin();
  // Whether there was one since begin().
  bool interrupted() const;

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace ebb::cli
