// What a person sees while training: one line that renews itself on a terminal, plain lines in a
// pipe.
#pragma once

#include <string>

#include "ebb/train.h"

namespace ebb::cli {

// Used on the thread that trains, and by it alone.
class Progress final : public TrainObserver {
 public:
  // How much is said: nothing but what the errors say; what a person would miss; all of it.
  enum class Detail { nothing, usual, everything };

  explicit Progress(Detail detail);
  ~Progress() override;

  // A line that stays: it takes the place of the step's, which comes again with the next step.
  void note(const std::string& text) override;
  void detail(const std::string& text) override;
  void step(const StepReport& report) override;
  // From now on an interrupt is a request to save, not the end.
  void started() override;
  bool stop_requested() override;

 private:
  // Throws IoError the first time that it fails; what comes later is not worth an error: the run is
  // ending, and has things to save.
  void print(const std::string& text);

  Detail detail_;
  bool terminal_;            // stdout is one
  bool line_shown_ = false;  // without its end: the next text writes over it
  bool broken_ = false;      // the output failed
  bool told_ = false;        // that the run was interrupted
};

}  // namespace ebb::cli
