// A trace: spans of tasks as a file that ui.perfetto.dev and chrome://tracing show. A track for
// each lane and one for the steps, a counter of bytes for each tier. What was measured and what is
// predicted are written alike, as two processes that one view can hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/list.h"
#include "plan/candidate.h"
#include "plan/time_span.h"

namespace ebb::plan {

// "forward block 3", "chunk 12 state to device", "norm".
std::string name_of(const Task&, const Program&, const Workload&);

struct Trace {
  enum class Kind : std::uint8_t { measured, predicted };
  Kind kind = Kind::measured;
  const Plan& plan;  // whose program has the tasks
  List<TimeSpan> spans;
  // The last so many steps are shown. Those before are only counted in what memory they still hold.
  std::int64_t steps = 0;
  // For people: the verb that ran, and what one run of the program is.
  std::string verb = "train";
  std::string run = "step";
};

// What `ebb plan` expects: the last two steps of a simulation, of which the last is as long as the
// steady state's.
Trace predicted_trace(const Plan&);

// Hands the file's text on in pieces. Time starts with the first span that is shown. Several, of
// programs that share lanes and arenas, are processes of one file.
void write_trace(std::span<const Trace>, FunctionRef<void(std::string_view)> sink);
void write_trace(const Trace&, FunctionRef<void(std::string_view)> sink);

}  // namespace ebb::plan
