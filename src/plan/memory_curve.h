// Bytes in use over time: an object's bytes come when the first task that uses them starts and go
// when the last one has ended.
#pragma once

#include <span>

#include "base/list.h"
#include "plan/program.h"
#include "plan/time_span.h"

namespace ebb::plan {

struct MemoryChange {
  double seconds = 0;
  Tier tier = Tier::device;
  Purpose purpose = Purpose::workspace;
  Bytes bytes = 0;  // more, or less where it is negative
};

// In the order of time; what goes comes before what comes at the same time. What is persistent is
// there from the first span's start on. Clocks of lanes differ by microseconds: a task that seems
// to start before the end of what it waited for counts from that end on, so that memory that was
// handed on is not counted twice. Hence on every tier the sum of all changes so far is at most the
// size of the program's layout.
List<MemoryChange> memory_curve(const Program&, std::span<const TimeSpan>);

}  // namespace ebb::plan
