// Another process's run, followed by its folder.
#pragma once

#include <memory>
#include <string>

#include "ebb/train.h"

namespace ebb {

// For one thread. Reads the run's files and changes nothing.
class RunWatch {
 public:
  // Throws ConfigError where the folder is no run's.
  explicit RunWatch(const std::string& run);
  ~RunWatch();
  RunWatch(RunWatch&&) noexcept;
  RunWatch& operator=(RunWatch&&) noexcept;

  // Tells the observer what the log has got since the last call: steps as the run itself told them,
  // and validations as notes. The first call tells all of it. Where the run began anew or went on
  // from an earlier step, it is told from there again.
  void poll(TrainObserver& observer);

  // Whether a process is at work there. Of another host's that is known only as far as it cleans up
  // when it ends.
  bool running() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb
