// A trace: spans of tasks as a file that ui.perfetto.dev and chrome://tracing show. A track for
// each lane and one for the steps, a counter of bytes for each tier. What was measured and what is
// predicted are written alike, as two processes that one view can hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "plan/candidate.h"
#include "plan/span.h"

namespace ebb::plan {

// "forward block 3", "chunk 12 state to device", "norm".
std::string name_of(const Task&, const Program&, const Workload&);

struct Trace {
  enum class Kind : std::uint8_t { measured, predicted };
  Kind kind = Kind::measured;
  const Plan& plan;  // whose program has the tasks
  std::vector<Span> spans;
  // The last so many steps are shown. Those before are only counted in what memory they still hold.
  std::int64_t steps = 0;
};

// What `ebb plan` expects: the last two steps of a simulation, of which the last is as long as the
// steady state's.
Trace predicted_trace(const Plan&);

// Hands the file's text on in pieces. Time starts with the first span that is shown.
void write_trace(const Trace&, FunctionRef<void(std::string_view)> sink);

}  // namespace ebb::plan
