// What a person sees while training: one line that renews itself on a terminal, plain lines in a
// pipe.
#pragma once

#include <string>

#include "ebb/train.h"

namespace ebb::cli {

class Progress final : public TrainObserver {
 public:
  Progress();
  ~Progress() override;

  void note(const std::string& text) override;
  void step(const StepReport& report) override;
  bool stop_requested() override;

  // Ctrl-C and a polite kill end the run after the step; a second one ends it at once.
  static void catch_interrupts();

 private:
  void clear_line();

  bool terminal_;
  bool line_shown_ = false;
};

}  // namespace ebb::cli
