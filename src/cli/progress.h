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
  void started() override;
  bool stop_requested() override;

 private:
  // Throws IoError the first time that it fails; what comes later is not worth an error: the run is
  // ending, and has things to save.
  void print(const std::string& text);

  bool terminal_;
  bool line_shown_ = false;
  bool broken_ = false;
  bool told_ = false;
};

}  // namespace ebb::cli
