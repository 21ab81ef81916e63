// One step as a picture shows it: when which lane was busy with what, and how many bytes of which
// purpose every tier held meanwhile. A few MB of JSON at most, whatever the size of the program:
// tasks too short to be seen are joined, and of moments of memory that lie too close the fullest
// and the emptiest stay.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "plan/trace.h"

namespace ebb::plan {

// A step is a period of the compute lane: from the end of its work in the step before to the end of
// its own. What other lanes do in that time is shown, of whichever step it is. Of a prediction
// the last step is shown, of a measured trace the shortest that has one before and one behind it,
// as far as there are some. The object has
//   kind ("measured", "predicted"), step, seconds, tick_seconds (times are whole ticks)
//   names, kinds   of tasks; spans refer to them by place
//   lanes          [{name, busy_seconds, spans: [[start, ticks, name, kind, joined]]}], where
//                  `joined` is how many more tasks the span stands for
//   memory         [{tier, limit, arena, beside, purposes, ticks, bytes}], where bytes has a list
//                  for each purpose and each of its values holds until the next tick
// Null where the trace has no span.
Json step_picture(const Trace&);

// A plan for programs and for a report: sizes, predictions, flags, the explanation in words as the
// caller has it, and the predicted step.
Json plan_json(const Plan&, const std::string& words);

}  // namespace ebb::plan
