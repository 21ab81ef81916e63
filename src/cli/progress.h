// What a person sees while training: a view that renews itself on a terminal, one line of it where
// the terminal is small, and plain lines in a pipe.
#pragma once

#include <chrono>
#include <string>

#include "cli/live_view.h"
#include "ebb/train.h"

namespace ebb::cli {

// Used on the thread that trains, and by it alone.
class Progress final : public TrainObserver {
 public:
  // How much is said: nothing but what the errors say; what a person would miss; all of it.
  enum class Detail { nothing, usual, everything };

  explicit Progress(Detail detail);
  ~Progress() override;

  // A line that stays: it takes the place of the view, which comes again with the next step or at
  // the end.
  void note(const std::string& text) override;
  void detail(const std::string& text) override;
  void step(const StepReport& report) override;
  // From now on an interrupt is a request to save, not the end.
  void started() override;
  bool stop_requested() override;
  // Shows the last step now: a terminal is not written to for each of a thousand steps a second.
  void show();

 private:
  // Throws IoError the first time that it fails; what comes later is not worth an error: the run is
  // ending, and has things to save.
  void print(const std::string& text);
  // What takes the cursor to where the view begins, and clears it; nothing where none is shown.
  std::string erase();
  std::string view_text();

  Detail detail_;
  bool terminal_;  // stdout is one
  LiveView view_;
  StepReport last_;
  int lines_shown_ = 0;   // the last one without its end: the next text writes over them
  bool pending_ = false;  // a step that is not shown yet
  std::chrono::steady_clock::time_point shown_{};
  bool broken_ = false;  // the output failed
  bool told_ = false;    // that the run was interrupted
};

}  // namespace ebb::cli
